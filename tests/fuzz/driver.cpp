// Runs a fuzz target where there is no libFuzzer, with the same arguments: seeded, on inputs that it mutates,
// keeping those that reach a new place of the kernel.
//   TARGET [-seed=N] [-runs=N] [-max_total_time=SECONDS] [-artifact_prefix=PREFIX] FOLDER ...   fuzz
//   TARGET [-artifact_prefix=PREFIX] FILE ...                                                   run the files
// The files of the folders are run as they are, then used as beginnings. The input that stops the program, or
// takes more than a minute, is written to a file whose name begins with PREFIX.
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "coverage.h"
#include "input.h"

extern "C" void __sanitizer_set_death_callback(void (*callback)());
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() {
  return "handle_abort=1:max_allocation_size_mb=1024:hard_rss_limit_mb=2048:detect_stack_use_after_return=0";
}

namespace {

using Bytes = std::vector<uint8_t>;

constexpr size_t kMaxBytes = 8192;
constexpr size_t kMaxKept = 5000;
constexpr unsigned kMaxSeconds = 60;

const Bytes* running = nullptr;
std::string crash_prefix = "crash";

void write_crash() {
  if (running == nullptr) return;
  uint64_t hash = 0xCBF29CE484222325u;
  for (const uint8_t byte : *running) hash = (hash ^ byte) * 0x100000001B3u;
  char name[17];
  std::snprintf(name, sizeof name, "%016llx", static_cast<unsigned long long>(hash));
  const std::string path = crash_prefix + name;
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(running->data()), static_cast<std::streamsize>(running->size()));
  std::fprintf(stderr, "the input of %zu bytes is in %s\n", running->size(), path.c_str());
  running = nullptr;
}

void too_slow(int) {
  std::fprintf(stderr, "still running after %u seconds\n", kMaxSeconds);
  write_crash();
  _exit(1);
}

void run(const Bytes& input) {
  running = &input;
  alarm(kMaxSeconds);
  LLVMFuzzerTestOneInput(input.data(), input.size());
  alarm(0);
  running = nullptr;
}

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  size_t below(size_t limit) { return random_() % limit; }

  // A beginning, changed a few times; or bytes of no origin.
  Bytes next(const std::vector<Bytes>& kept) {
    Bytes bytes;
    if (!kept.empty() && below(20) != 0) {
      bytes = kept[below(2) == 0 ? below(kept.size())
                                 : kept.size() - 1 - below(std::min<size_t>(kept.size(), 50))];
    } else {
      bytes.resize(below(1 << (1 + below(10))));
      for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random_());
    }
    for (size_t changes = size_t{1} << below(5); changes > 0; --changes) change(&bytes, kept);
    if (bytes.size() > kMaxBytes) bytes.resize(kMaxBytes);
    return bytes;
  }

 private:
  void change(Bytes* bytes, const std::vector<Bytes>& kept) {
    const size_t size = bytes->size();
    const auto place = [&](size_t at) { return bytes->begin() + static_cast<std::ptrdiff_t>(at); };
    const size_t at = below(size + 1), length = below(std::min<size_t>(size - at, size_t{1} << below(9)) + 1);
    switch (below(size == 0 ? 3 : 8)) {
      case 0:  // some bytes more
        bytes->insert(place(at), 1 + below(8), static_cast<uint8_t>(random_()));
        return;
      case 1: {  // what many inputs are about
        static constexpr std::string_view kParts[] = {" ",
                                                      "  ",
                                                      "\n",
                                                      "\r\n",
                                                      "'s",
                                                      "'LL",
                                                      "\xC5\xBF",
                                                      "\xE2\x84\xAA",
                                                      "\xC2\xA0",
                                                      "\xE3\x80\x80",
                                                      "\xCC\x81",
                                                      "\xE6\x97\xA5",
                                                      "\xF0\x9F\x98\x80",
                                                      "\xF0\x9F\x91\xA9\xE2\x80\x8D",
                                                      "\xED\xA0\x80",
                                                      "\xF4\x90\x80\x80",
                                                      "\xE2\x82",
                                                      "\xFF",
                                                      "123",
                                                      "{\"text\":\"",
                                                      "\",\"id\":\"k\",\"lang\":\"en\"}\n",
                                                      "\\ud83d\\ude00",
                                                      "\\u00e9",
                                                      "\\ud800",
                                                      "1e999",
                                                      "[[[[[[[[",
                                                      "@a.de",
                                                      "sk-",
                                                      "AKIA",
                                                      "4111 1111 1111 1111",
                                                      "DE89 3704 ",
                                                      "-----BEGIN PRIVATE KEY-----",
                                                      "://a:b@",
                                                      "+49 ",
                                                      "1.2.3.4",
                                                      "<|end|>"};
        const std::string_view part = kParts[below(std::size(kParts))];
        bytes->insert(place(at), part.begin(), part.end());
        return;
      }
      case 2: {  // a piece of another input
        if (kept.empty()) return;
        const Bytes& other = kept[below(kept.size())];
        const size_t from = below(other.size() + 1), more = below(other.size() - from + 1);
        const Bytes piece(other.begin() + static_cast<std::ptrdiff_t>(from),
                          other.begin() + static_cast<std::ptrdiff_t>(from + more));
        bytes->insert(place(at), piece.begin(), piece.end());
        return;
      }
      case 3:  // one bit
        (*bytes)[below(size)] ^= static_cast<uint8_t>(1u << below(8));
        return;
      case 4: {  // one byte
        static constexpr uint8_t kEdges[] = {0, 1, 0x7F, 0x80, 0xFE, 0xFF};
        (*bytes)[below(size)] =
            below(2) == 0 ? kEdges[below(std::size(kEdges))] : static_cast<uint8_t>(random_());
        return;
      }
      case 5:  // less
        bytes->erase(place(at), place(at + length));
        return;
      case 6: {  // the same again, a few or many times
        const Bytes piece(place(at), place(at + length));
        for (size_t repeats = size_t{1} << below(6); repeats > 0 && bytes->size() < kMaxBytes; --repeats)
          bytes->insert(place(at), piece.begin(), piece.end());
        return;
      }
      default:  // a little more or less
        (*bytes)[below(size)] += static_cast<uint8_t>(below(5) - 2);
        return;
    }
  }

  std::mt19937_64 random_;
};

void read_all(const std::filesystem::path& path, std::vector<std::filesystem::path>* files) {
  if (!std::filesystem::is_directory(path)) return files->push_back(path);
  std::vector<std::filesystem::path> inside;
  for (const auto& entry : std::filesystem::directory_iterator(path)) inside.push_back(entry.path());
  std::sort(inside.begin(), inside.end());
  for (const auto& file : inside) read_all(file, files);
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t seed = 1, runs = UINT64_MAX;
  double seconds = 1e9;
  bool only_files = true;
  std::string prefix;
  std::vector<std::filesystem::path> files;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    const char* const value = equals == std::string::npos ? "" : argv[i] + equals + 1;
    if (name == "-seed") {
      seed = std::strtoull(value, nullptr, 10);
    } else if (name == "-runs") {
      runs = std::strtoull(value, nullptr, 10);
    } else if (name == "-max_total_time") {
      seconds = std::strtod(value, nullptr);
    } else if (name == "-artifact_prefix") {
      prefix = value;
    } else if (argument[0] != '-') {
      only_files = only_files && !std::filesystem::is_directory(argument);
      read_all(argument, &files);
    }
  }
  if (only_files && !files.empty()) runs = 0;
  const std::string target = std::filesystem::path(argv[0]).filename();
  crash_prefix = prefix + "crash-";
  std::printf("%s: seed %llu\n", target.c_str(), static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  __sanitizer_set_death_callback(write_crash);
  signal(SIGALRM, too_slow);

  std::vector<Bytes> kept;
  for (const auto& file : files) {
    std::ifstream stream(file, std::ios::binary);
    if (!stream) {
      std::fprintf(stderr, "%s cannot be read\n", file.c_str());
      return 2;
    }
    kept.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
    run(kept.back());
  }
  tokcore::fuzz::reached_new_place();
  const size_t num_given = kept.size();
  Mutator mutator(seed);
  const auto start = std::chrono::steady_clock::now();
  uint64_t done = 0;
  for (; done < runs; ++done) {
    if (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > seconds) break;
    Bytes input = mutator.next(kept);
    run(input);
    if (tokcore::fuzz::reached_new_place() && kept.size() < kMaxKept) kept.push_back(std::move(input));
  }
  std::printf("%s: %zu files and %llu runs, %zu inputs reached something new\n", target.c_str(), num_given,
              static_cast<unsigned long long>(done), kept.size() - num_given);
  return 0;
}
