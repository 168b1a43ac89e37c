// SPDX-License-Identifier: GPL-2.0
/*
 * hpccmon export: GET /metrics, by libmicrohttpd.
 *
 * The cost of a client is limited. A client may send CONNECTION_BYTES and gets one answer, and we
 * close it after CONNECTION_S. There are at most CONNECTIONS_MAX clients. A further client replaces
 * the oldest client without a complete request or, if all requests are complete, the oldest client.
 * Requests within FRESH_MS get the same text.
 *
 * With DNS rebinding, a web page in a browser on this host could read our answer: the author of the
 * page resolves a name to our address. The browser sends that name as Host, so we accept only our
 * own names.
 */
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "export.h"

#define CONNECTIONS_MAX		8
/* After we close a client, it stays until the library notices this. */
#define CONNECTIONS_SPARE	8
#define CLIENTS			(CONNECTIONS_MAX + CONNECTIONS_SPARE)
#define CONNECTION_BYTES	(16 << 10)
#define CONNECTION_S		10
#define FRESH_MS		500
#define WAIT_MS			500

struct client {
	struct MHD_Connection	*connection;	/* NULL: unused */
	uint64_t		since_ms;
	bool			complete;		/* the request is complete */
	bool			ended;		/* we have closed it */
};

struct server {
	struct export		*export;
	struct MHD_Response	*metrics;	/* the last text, or NULL */
	uint64_t		metrics_ms;	/* time of the last text */
	struct client		client[CLIENTS];
};

static uint64_t now_ms(void)
{
	return 1e3 * seconds(CLOCK_MONOTONIC);
}

static struct MHD_Response *response(char *text, size_t length, enum MHD_ResponseMemoryMode mode)
{
	struct MHD_Response *made = MHD_create_response_from_buffer(length, text, mode);

	allocated(made);
	MHD_add_response_header(made, MHD_HTTP_HEADER_CONNECTION, "close");
	return made;
}

static struct MHD_Response *fresh_metrics(struct server *server)
{
	const char *why = NULL;
	size_t length;
	char *text;

	if (server->metrics && now_ms() - server->metrics_ms < FRESH_MS)
		return server->metrics;
	if (server->metrics)
		MHD_destroy_response(server->metrics);
	text = metrics_text(server->export, &length, &why);
	server->metrics = response(text, length, MHD_RESPMEM_MUST_FREE);
	MHD_add_response_header(server->metrics, MHD_HTTP_HEADER_CONTENT_TYPE,
				"text/plain; version=0.0.4; charset=utf-8");
	server->metrics_ms = now_ms();
	return server->metrics;
}

static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned int status, char *text)
{
	struct MHD_Response *made = response(text, strlen(text), MHD_RESPMEM_PERSISTENT);
	enum MHD_Result result;

	MHD_add_response_header(made, MHD_HTTP_HEADER_CONTENT_TYPE, "text/plain");
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(made, MHD_HTTP_HEADER_ALLOW, "GET");
	result = MHD_queue_response(connection, status, made);
	MHD_destroy_response(made);
	return result;
}

/* The address that the client connected to. */
static bool local_addr(struct MHD_Connection *connection, struct in6_addr *addr)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	union {
		struct sockaddr_in	v4;
		struct sockaddr_in6	v6;
	} name;
	socklen_t length = sizeof(name);

	if (!info || getsockname(info->connect_fd, (struct sockaddr *)&name, &length))
		return false;
	if (name.v4.sin_family == AF_INET)
		addr_map(addr, &name.v4.sin_addr);
	else
		*addr = name.v6.sin6_addr;
	return true;
}

static bool is_loopback(const struct in6_addr *addr)
{
	return IN6_IS_ADDR_LOOPBACK(addr) ||
	       (IN6_IS_ADDR_V4MAPPED(addr) && addr->s6_addr[12] == 127);
}

static bool is_in_list(const char *list, const char *name, size_t length)
{
	size_t n;

	for (; list; list = list[n] ? list + n + 1 : NULL) {
		n = strcspn(list, ",");
		if (n && n == length && !strncasecmp(list, name, n))
			return true;
	}
	return false;
}

/* HTTP/1.0 permits requests without Host; browsers never send these. */
static bool is_our_name(const struct export *export, struct MHD_Connection *connection)
{
	const char *host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
						       MHD_HTTP_HEADER_HOST);
	struct in6_addr local;
	char text[ENDPOINT_MAX];
	struct endpoint endpoint;
	size_t length;

	if (!host)
		return true;
	if (endpoint_read(&endpoint, host) && !endpoint.any_addr) {
		if (is_loopback(&endpoint.addr) ||
		    (local_addr(connection, &local) && IN6_ARE_ADDR_EQUAL(&local, &endpoint.addr)))
			return true;
		host = addr_text(&endpoint, text);
		return is_in_list(export->hosts, host, strlen(host));
	}
	length = strcspn(host, ":");
	if (host[length + strspn(host + length, ":0123456789")])
		return false;
	return is_in_list("localhost", host, length) || is_in_list(export->hosts, host, length);
}

static struct client *client_of(struct server *server, const struct MHD_Connection *connection)
{
	struct client *client;

	for (client = server->client; client < server->client + CLIENTS; client++) {
		if (client->connection == connection)
			return client;
	}
	return NULL;
}

static enum MHD_Result answer(void *data, struct MHD_Connection *connection, const char *url,
			      const char *method, const char *version, const char *upload,
			      size_t *upload_size, void **state)
{
	struct server *server = data;
	struct client *client = client_of(server, connection);

	(void)version;
	(void)upload;
	(void)upload_size;
	(void)state;
	if (client)
		client->complete = true;
	if (!is_our_name(server->export, connection))
		return refuse(connection, MHD_HTTP_FORBIDDEN, "unknown Host: see --host\n");
	if (strcmp(url, "/metrics"))
		return refuse(connection, MHD_HTTP_NOT_FOUND, "the only path is /metrics\n");
	if (strcmp(method, MHD_HTTP_METHOD_GET))
		return refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "use GET\n");
	return MHD_queue_response(connection, MHD_HTTP_OK, fresh_metrics(server));
}

static void end_client(struct client *client)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(client->connection, MHD_CONNECTION_INFO_CONNECTION_FD);

	if (info)
		shutdown(info->connect_fd, SHUT_RDWR);
	client->ended = true;
}

/* Do not close the newest client, because it needs the room. */
static void make_room(struct server *server, const struct client *newest)
{
	struct client *client, *oldest = NULL;
	unsigned int nr = 0;

	for (client = server->client; client < server->client + CLIENTS; client++) {
		if (!client->connection || client->ended)
			continue;
		nr++;
		if (client == newest)
			continue;
		if (!oldest || client->complete < oldest->complete ||
		    (client->complete == oldest->complete && client->since_ms < oldest->since_ms))
			oldest = client;
	}
	if (nr > CONNECTIONS_MAX)
		end_client(oldest);
}

static void client_change(void *data, struct MHD_Connection *connection, void **state,
			  enum MHD_ConnectionNotificationCode what)
{
	bool begins = what == MHD_CONNECTION_NOTIFY_STARTED;
	struct server *server = data;
	struct client *client = client_of(server, begins ? NULL : connection);

	(void)state;
	if (!client)
		return;
	*client = (struct client){ .connection = begins ? connection : NULL, .since_ms = now_ms() };
	if (begins)
		make_room(server, client);
}

/* The library's timeout restarts with each byte, so it does not limit the time of a client. */
static void end_old_clients(struct server *server)
{
	struct client *client;

	for (client = server->client; client < server->client + CLIENTS; client++) {
		if (client->connection && now_ms() - client->since_ms >= CONNECTION_S * 1000)
			end_client(client);
	}
}

static int listen_at(const struct endpoint *endpoint)
{
	struct sockaddr_in6 v6 = {
		.sin6_family = AF_INET6,
		.sin6_port = htons(endpoint->port),
		.sin6_addr = endpoint->addr,
	};
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(endpoint->port) };
	bool is_v4 = IN6_IS_ADDR_V4MAPPED(&endpoint->addr);
	const void *addr = is_v4 ? (void *)&v4 : (void *)&v6;
	static const char cc[] = "reno";
	int one = 1, fd;

	memcpy(&v4.sin_addr, endpoint->addr.s6_addr + 12, sizeof(v4.sin_addr));
	/* Even if hpcc is the default of this host, do not use it: the server would report its own
	 * connections.
	 */
	fd = socket(is_v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, cc, sizeof(cc) - 1) ||
	    bind(fd, addr, is_v4 ? sizeof(v4) : sizeof(v6)) || listen(fd, CONNECTIONS_MAX))
		return -1;
	return fd;
}

/* Answer GET /metrics at the address and port @where until SIGINT or SIGTERM. Return: 0. */
int serve_metrics(struct export *export, const char *where)
{
	struct server server = { .export = export };
	struct MHD_Daemon *daemon;
	char text[ENDPOINT_MAX];
	struct endpoint endpoint;
	int fd;

	if (!endpoint_read(&endpoint, where) || endpoint.any_addr || endpoint.any_port)
		usage("--listen %s: write ADDR:PORT or [ADDR]:PORT", where);
	fd = listen_at(&endpoint);
	if (fd < 0)
		die("%s: %s", endpoint_text(&endpoint, text), strerror(errno));
	daemon = MHD_start_daemon(MHD_NO_FLAG, 0, NULL, NULL, answer, &server,
				  MHD_OPTION_LISTEN_SOCKET, fd,
				  MHD_OPTION_STRICT_FOR_CLIENT, 1,
				  MHD_OPTION_CONNECTION_LIMIT, (unsigned int)CLIENTS,
				  MHD_OPTION_CONNECTION_TIMEOUT, (unsigned int)CONNECTION_S,
				  MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
				  MHD_OPTION_NOTIFY_CONNECTION, client_change, &server,
				  MHD_OPTION_END);
	if (!daemon)
		die("cannot serve HTTP");
	catch_interrupts();
	fprintf(stderr, "http://%s/metrics; Ctrl-C ends\n", endpoint_text(&endpoint, text));
	while (!interrupted()) {
		if (MHD_run_wait(daemon, WAIT_MS) != MHD_YES && !interrupted())
			die("HTTP: %s", strerror(errno));
		end_old_clients(&server);
	}
	MHD_stop_daemon(daemon);
	if (server.metrics)
		MHD_destroy_response(server.metrics);
	return 0;
}
