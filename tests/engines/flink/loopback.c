// DESCRIPTION
// Loaded before a program (LD_PRELOAD), it binds what the program would bind to every interface to 127.0.0.1. Beam's
// servers in Java take no address: whatever they are told, they listen everywhere, without a password.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

int bind(int socket, const struct sockaddr *address, socklen_t size) {
  static int (*bind_as_told)(int, const struct sockaddr *, socklen_t);
  if (bind_as_told == NULL) bind_as_told = (int (*)(int, const struct sockaddr *, socklen_t))dlsym(RTLD_NEXT, "bind");
  if (address->sa_family == AF_INET && size >= sizeof(struct sockaddr_in)) {
    struct sockaddr_in bound;
    memcpy(&bound, address, sizeof bound);
    if (bound.sin_addr.s_addr == htonl(INADDR_ANY)) {
      bound.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      return bind_as_told(socket, (const struct sockaddr *)&bound, sizeof bound);
    }
  }
  if (address->sa_family == AF_INET6 && size >= sizeof(struct sockaddr_in6)) {
    struct sockaddr_in6 bound;
    memcpy(&bound, address, sizeof bound);
    if (IN6_IS_ADDR_UNSPECIFIED(&bound.sin6_addr)) {
      // As an address of IPv6, so that the socket still takes connections to 127.0.0.1.
      inet_pton(AF_INET6, "::ffff:127.0.0.1", &bound.sin6_addr);
      return bind_as_told(socket, (const struct sockaddr *)&bound, sizeof bound);
    }
  }
  return bind_as_told(socket, address, size);
}
