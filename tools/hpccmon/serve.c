// SPDX-License-Identifier: GPL-2.0
/*
 * hpccmon export: GET /metrics, by libmicrohttpd. A client costs little, whatever it does: there
 * are CONNECTIONS_MAX of them, and others are refused; each has CONNECTION_BYTES for what it sends,
 * one answer, and CONNECTION_S. Who asks more often than once in FRESH_MS gets the same text
 * again.
 */
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "export.h"

#define CONNECTIONS_MAX		8
#define CONNECTION_BYTES	(16 << 10)
#define CONNECTION_S		10
#define FRESH_MS		500
#define WAIT_MS			500

struct client {
	struct MHD_Connection	*connection;	/* NULL: nobody */
	uint64_t		since_ms;
};

struct server {
	struct export		*export;
	struct MHD_Response	*metrics;	/* the last ones, or NULL */
	uint64_t		metrics_ms;	/* as of when */
	struct client		client[CONNECTIONS_MAX];
};

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000ULL + ts.tv_nsec / 1000000;
}

/* ---- Answers ------------------------------------------------------------------------- */

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

static enum MHD_Result answer(void *data, struct MHD_Connection *connection, const char *url,
			      const char *method, const char *version, const char *upload,
			      size_t *upload_size, void **state)
{
	(void)version;
	(void)upload;
	(void)upload_size;
	(void)state;
	if (strcmp(url, "/metrics"))
		return refuse(connection, MHD_HTTP_NOT_FOUND, "there is /metrics\n");
	if (strcmp(method, MHD_HTTP_METHOD_GET))
		return refuse(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "GET it\n");
	return MHD_queue_response(connection, MHD_HTTP_OK, fresh_metrics(data));
}

/* ---- Clients -------------------------------------------------------------------------- */

static void client_change(void *data, struct MHD_Connection *connection, void **state,
			  enum MHD_ConnectionNotificationCode what)
{
	bool begins = what == MHD_CONNECTION_NOTIFY_STARTED;
	struct server *server = data;
	struct client *client;

	(void)state;
	for (client = server->client; client < server->client + CONNECTIONS_MAX; client++) {
		if (client->connection != (begins ? NULL : connection))
			continue;
		client->connection = begins ? connection : NULL;
		client->since_ms = now_ms();
		break;
	}
}

/* The library's time-out counts anew with each byte. */
static void end_old_clients(struct server *server)
{
	const union MHD_ConnectionInfo *info;
	struct client *client;

	for (client = server->client; client < server->client + CONNECTIONS_MAX; client++) {
		if (!client->connection || now_ms() - client->since_ms < CONNECTION_S * 1000)
			continue;
		info = MHD_get_connection_info(client->connection,
					       MHD_CONNECTION_INFO_CONNECTION_FD);
		if (info)
			shutdown(info->connect_fd, SHUT_RDWR);
	}
}

/* ---- The server ------------------------------------------------------------------------- */

static int listen_at(const struct end *end)
{
	struct sockaddr_in6 v6 = {
		.sin6_family = AF_INET6, .sin6_port = htons(end->port), .sin6_addr = end->addr,
	};
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(end->port) };
	bool is_v4 = IN6_IS_ADDR_V4MAPPED(&end->addr);
	const void *addr = is_v4 ? (void *)&v4 : (void *)&v6;
	static const char cc[] = "reno";
	int one = 1, fd;

	memcpy(&v4.sin_addr, end->addr.s6_addr + 12, sizeof(v4.sin_addr));
	/* Not hpcc, even if that is this host's: the server would tell of its own connections. */
	fd = socket(is_v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, cc, sizeof(cc) - 1) ||
	    bind(fd, addr, is_v4 ? sizeof(v4) : sizeof(v6)) || listen(fd, CONNECTIONS_MAX))
		return -1;
	return fd;
}

/**
 * serve_metrics() - answer GET /metrics until SIGINT or SIGTERM
 * @export: what is told
 * @where: address and port
 *
 * Return: 0.
 */
int serve_metrics(struct export *export, const char *where)
{
	struct server server = { .export = export };
	struct MHD_Daemon *daemon;
	char text[END_MAX];
	struct end end;
	int fd;

	if (!end_read(&end, where) || end.any_addr || end.any_port)
		usage("--listen %s: write ADDR:PORT or [ADDR]:PORT", where);
	fd = listen_at(&end);
	if (fd < 0)
		die("%s: %s", end_text(&end, text), strerror(errno));
	daemon = MHD_start_daemon(MHD_NO_FLAG, 0, NULL, NULL, answer, &server,
				  MHD_OPTION_LISTEN_SOCKET, fd,
				  MHD_OPTION_STRICT_FOR_CLIENT, 1,
				  MHD_OPTION_CONNECTION_LIMIT, (unsigned int)CONNECTIONS_MAX,
				  MHD_OPTION_CONNECTION_TIMEOUT, (unsigned int)CONNECTION_S,
				  MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
				  MHD_OPTION_NOTIFY_CONNECTION, client_change, &server,
				  MHD_OPTION_END);
	if (!daemon)
		die("cannot serve HTTP");
	catch_interrupts();
	fprintf(stderr, "http://%s/metrics; Ctrl-C ends\n", end_text(&end, text));
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
