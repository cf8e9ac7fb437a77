#include "bindings.h"

NB_MODULE(_native, module) {
  module.doc() = "The native kernel of tokcore. Use it through tokcore.kernel.";
  tokcore::bind_scanner(module);
  tokcore::bind_counter(module);
  tokcore::bind_learner(module);
  tokcore::bind_encoder(module);
}
