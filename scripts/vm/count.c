// SPDX-License-Identifier: GPL-2.0
/*
 * A plugin of QEMU: it counts the instructions of each function of the guest's
 * kernel, by the role for which the function works (enum role). The guest has one CPU.
 * scripts/bench-kernel builds and loads the plugin.
 *
 *    -plugin file=count.so,symbols=FILE,out=PREFIX
 *
 * The guest calls one of three addresses, each of which holds a return instruction:
 *    COUNT_AT      read FILE, lines of /proc/kallsyms; wait until it exists
 *    COUNT_AT + 1  begin to count
 *    COUNT_AT + 2  stop, and write PREFIX.0, the next time PREFIX.1
 * The guest's time does not advance during such a call.
 *
 * The role of a function depends on its callers, so the plugin follows the stack. The
 * last instruction of a translated block may be a call or a return. A call stores its
 * return address, and a return loads it: the addresses of these accesses show the order
 * of the frames. A frame has the role of its caller, unless marks[] contains its
 * function. The role of a received packet is unknown at first: until it is known, the
 * packet's instructions are counted as PENDING.
 *
 * Limits: an interrupt has no call instruction, so its first block counts for the role
 * that it interrupts. A block that a fault ends early counts as a whole.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qemu_plugin.h"

#define EXPORT __attribute__((visibility("default")))

/* QEMU before 9.0 accepts version 1, later ones accept version 2. */
#ifndef PLUGIN_VERSION
#define PLUGIN_VERSION 1
#endif
EXPORT int qemu_plugin_version = PLUGIN_VERSION;

/* guestbench.py uses the same address. */
#define COUNT_AT	0x7ead00000000ULL
/* The kernel's half of the address space, on x86-64. */
#define KERNEL_AT	0xffff800000000000ULL
/* THREAD_SIZE on x86-64, which is also the size and the alignment of interrupts' stacks. */
#define STACK_SHIFT	14
#define FRAMES_MAX	256
#define STACKS		65536
/* Maximum number of functions that run for a packet before its role is known. */
#define SYMBOLS_MAX	1024

enum role {
	USER, SENDER_OUT, SENDER_IN, SWITCH, QDISC, RECEIVER, TIMER, REST, PENDING, ROLES
};

static const char *const role_names[ROLES] = {
	"user", "sender_out", "sender_in", "switch", "qdisc", "receiver", "timer", "rest",
	"pending"
};

enum mark {
	NONE,
	AS,		/* the frame gets the role of its row in marks[] */
	INTERRUPTS,	/* like AS; the function also receives packets */
	ARRIVES,	/* a packet was received; its role is unknown */
	IS_FOR,		/* the packet's role is that of the row */
	IS_QUEUED,	/* a process owns the packet's socket: the interrupted role */
	TO_SOCKET,	/* the packet waited until a process released its socket */
};

/* A kernel may inline some of these functions, so the list has several functions of each path. */
static const struct {
	const char *name;
	enum mark mark;
	enum role role;
} marks[] = {
	{ "tcp_sendmsg", AS, SENDER_OUT },
	{ "tcp_write_xmit", AS, SENDER_OUT },
	{ "tcp_tsq_handler", AS, SENDER_OUT },
	{ "tcp_tasklet_func", AS, SENDER_OUT },
	{ "tcp_tsq_workfn", AS, SENDER_OUT },
	{ "tcp_pace_kick", AS, SENDER_OUT },
	{ "tcp_write_timer", AS, SENDER_OUT },
	{ "tcp_recvmsg", AS, RECEIVER },
	{ "tcp_delack_timer", AS, RECEIVER },
	{ "net_tx_action", AS, SWITCH },
	{ "net_rx_action", INTERRUPTS, REST },
	{ "sysvec_apic_timer_interrupt", AS, TIMER },
	{ "hrtimer_run_softirq", AS, TIMER },
	{ "run_timer_softirq", AS, TIMER },
	{ "do_idle", AS, REST },
	{ "__netif_receive_skb", ARRIVES, PENDING },
	{ "__netif_receive_skb_one_core", ARRIVES, PENDING },
	{ "__netif_receive_skb_list_core", ARRIVES, PENDING },
	{ "tcp_rate_gen", IS_FOR, SENDER_IN },
	{ "tcp_rate_skb_delivered", IS_FOR, SENDER_IN },
	{ "tcp_queue_rcv", IS_FOR, RECEIVER },
	{ "tcp_event_data_recv", IS_FOR, RECEIVER },
	{ "__tcp_send_ack", IS_FOR, RECEIVER },
	{ "__tcp_send_ack.part.0", IS_FOR, RECEIVER },
	{ "tcp_send_delayed_ack", IS_FOR, RECEIVER },
	{ "tcp_data_ready", IS_FOR, RECEIVER },
	{ "tcp_add_backlog", IS_QUEUED, PENDING },
	{ "tcp_v4_do_rcv", TO_SOCKET, SENDER_IN },
};

struct symbol {
	uint64_t addr;
	const char *name;
	const char *module;
	enum mark mark;
	enum role role;
	bool ours;
	bool qdisc;
	uint64_t insns[ROLES];
	uint64_t calls[ROLES];
};

struct block {
	uint64_t pc;
	unsigned int insns;
	struct symbol *sym;	/* symbol in @table */
	const struct symbol *table;
};

struct frame {
	uint64_t sp;
	enum role role;
	struct stack *caller;	/* interrupts have a stack of their own */
};

struct stack {
	uint64_t id;
	unsigned int n;
	struct frame frames[FRAMES_MAX];
};

static struct symbol *symbols;
static size_t nr_symbols;
static struct symbol user = { .name = "user", .module = "-" };
static struct stack *stacks[STACKS];
static struct stack nowhere, *current = &nowhere;
static const char *symbols_path, *out_path;
static bool counting;
/* The role that the reception of packets interrupted. */
static enum role interrupted;
static unsigned int nr_out;

/* The packet that is being received. */
static struct {
	bool open;
	bool known;
	bool queued;
	enum role role;
	struct stack *stack;
	uint64_t sp;
	uint64_t ours;
	/* Functions that ran for the packet before its role was known. */
	struct symbol *symbols[SYMBOLS_MAX];
	unsigned int n;
} packet;

/* Histogram: ACKs by the number of instructions that our modules executed for them. */
#define OURS_MAX 8192
static uint64_t acks[OURS_MAX];

/* ---- symbols ---------------------------------------------------------------- */

static int by_address(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

static void mark_symbol(struct symbol *sym)
{
	for (size_t i = 0; i < sizeof(marks) / sizeof(*marks); i++) {
		if (strcmp(sym->name, marks[i].name))
			continue;
		sym->mark = marks[i].mark;
		sym->role = marks[i].role;
	}
	/* Debian has fq_codel built in. */
	sym->qdisc = !strncmp(sym->module, "sch_", 4) || !strncmp(sym->name, "fq_codel_", 9);
	sym->ours = strstr(sym->module, "hpcc") || strstr(sym->module, "ldcp");
}

static void read_symbols(FILE *file)
{
	char line[512], name[256], module[64], type;
	size_t size = 0, kept = 0;
	unsigned long addr;

	while (fgets(line, sizeof(line), file)) {
		*module = '\0';
		if (sscanf(line, "%lx %c %255s [%63[^]]]", &addr, &type, name, module) < 3 ||
		    !strchr("tTwW", type))
			continue;
		if (nr_symbols == size) {
			size = size ? 2 * size : 65536;
			symbols = realloc(symbols, size * sizeof(*symbols));
		}
		symbols[nr_symbols] = (struct symbol){
			.addr = addr, .name = strdup(name),
			.module = strdup(*module ? module : "-"),
		};
		mark_symbol(&symbols[nr_symbols++]);
	}
	qsort(symbols, nr_symbols, sizeof(*symbols), by_address);
	/* If an address has several names, keep the marked one. */
	for (size_t i = 1; i < nr_symbols; i++) {
		if (symbols[i].addr != symbols[kept].addr)
			symbols[++kept] = symbols[i];
		else if (symbols[i].mark)
			symbols[kept] = symbols[i];
	}
	nr_symbols = kept + 1;
}

static void load(unsigned int cpu, void *data)
{
	FILE *file;

	while (!(file = fopen(symbols_path, "r")))
		usleep(10000);
	nr_symbols = 0;
	symbols = NULL;
	read_symbols(file);
	fclose(file);
}

static struct symbol *symbol_of(uint64_t pc)
{
	size_t low = 0, high = nr_symbols, mid;

	while (high - low > 1) {
		mid = (low + high) / 2;
		if (symbols[mid].addr <= pc)
			low = mid;
		else
			high = mid;
	}
	return &symbols[low];
}

/* ---- frames ----------------------------------------------------------------- */

static struct stack *stack_of(uint64_t sp)
{
	uint64_t id = sp >> STACK_SHIFT;
	size_t at = id * 0x9e3779b97f4a7c15ULL >> 48;

	while (stacks[at] && stacks[at]->id != id)
		at = (at + 1) % STACKS;
	if (!stacks[at]) {
		stacks[at] = calloc(1, sizeof(**stacks));
		stacks[at]->id = id;
	}
	return stacks[at];
}

static enum role role_now(void)
{
	return current->n ? current->frames[current->n - 1].role : REST;
}

static void set_role(enum role role)
{
	if (current->n)
		current->frames[current->n - 1].role = role;
}

/* Assign the packet's instructions so far to a role. */
static void settle(enum role role)
{
	unsigned int i;

	packet.known = true;
	packet.role = role;
	for (i = 0; i < packet.stack->n; i++)
		if (packet.stack->frames[i].role == PENDING)
			packet.stack->frames[i].role = role;
	for (i = 0; i < packet.n; i++) {
		struct symbol *sym = packet.symbols[i];

		sym->insns[role] += sym->insns[PENDING];
		sym->calls[role] += sym->calls[PENDING];
		sym->insns[PENDING] = 0;
		sym->calls[PENDING] = 0;
	}
	packet.n = 0;
}

/* A packet whose role is still unknown was forwarded. */
static void close_packet(void)
{
	if (!packet.known)
		settle(SWITCH);
	packet.open = false;
	if (counting && packet.role == SENDER_IN && !packet.queued)
		acks[packet.ours < OURS_MAX ? packet.ours : OURS_MAX - 1]++;
}

static void pop(struct stack *stack, uint64_t sp)
{
	while (stack->n && stack->frames[stack->n - 1].sp <= sp) {
		if (packet.open && stack == packet.stack &&
		    stack->frames[stack->n - 1].sp == packet.sp)
			close_packet();
		stack->n--;
	}
}

/* QEMU 7.2 misses most accesses if a plugin requests loads only. */
static void called(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t sp, void *data)
{
	struct stack *stack = stack_of(sp), *caller;
	enum role role;

	if (!qemu_plugin_mem_is_store(info))
		return;
	pop(stack, sp);
	/* The caller of the first frame of an interrupt's stack is on the previous stack. */
	if (stack->n || stack == current)
		current = stack;
	caller = current;
	role = role_now();
	current = stack;
	if (stack->n < FRAMES_MAX)
		stack->frames[stack->n++] = (struct frame){ sp, role, caller };
}

static void returned(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t sp, void *data)
{
	struct stack *stack = stack_of(sp);
	const struct frame *first = stack->frames;
	bool empty = !stack->n;

	pop(stack, sp);
	current = stack->n || empty ? stack : first->caller;
}

/* ---- roles ------------------------------------------------------------------ */

static void arrives(void)
{
	if (packet.open || !current->n)
		return;
	packet.open = true;
	packet.known = false;
	packet.queued = false;
	packet.stack = current;
	packet.sp = current->frames[current->n - 1].sp;
	packet.ours = 0;
	set_role(PENDING);
}

static void is_queued(void)
{
	packet.queued = true;
	settle(interrupted == SENDER_OUT ? SENDER_IN : interrupted);
}

static void enter(const struct symbol *sym)
{
	bool unknown = packet.open && !packet.known && current == packet.stack;

	switch (sym->mark) {
	case INTERRUPTS:
		interrupted = role_now();
		set_role(sym->role);
		break;
	case AS:
		set_role(sym->role);
		break;
	case ARRIVES:
		arrives();
		break;
	case IS_FOR:
		if (unknown)
			settle(sym->role);
		break;
	case IS_QUEUED:
		if (unknown)
			is_queued();
		break;
	case TO_SOCKET:
		if (role_now() == SENDER_OUT)
			set_role(sym->role);
		break;
	default:
		break;
	}
}

/* ---- blocks ----------------------------------------------------------------- */

static void executed(unsigned int cpu, void *data)
{
	struct block *block = data;
	struct symbol *sym;
	enum role role;
	bool first;

	if (!symbols)
		return;
	if (block->table != symbols) {
		block->table = symbols;
		block->sym = symbol_of(block->pc);
	}
	sym = block->sym;
	first = block->pc == sym->addr;
	if (first && sym->mark)
		enter(sym);
	role = role_now();
	if (sym->qdisc && role != QDISC) {
		role = QDISC;
		set_role(role);
	}
	if (packet.open && sym->ours && (role == PENDING || role == SENDER_IN))
		packet.ours += block->insns;
	if (!counting)
		return;
	if (role == PENDING && !sym->insns[role] && packet.n < SYMBOLS_MAX)
		packet.symbols[packet.n++] = sym;
	sym->insns[role] += block->insns;
	sym->calls[role] += first;
}

static void executed_user(unsigned int cpu, void *data)
{
	const struct block *block = data;

	current = &nowhere;
	if (counting)
		user.insns[USER] += block->insns;
}

static void print_symbol(FILE *file, const struct symbol *sym)
{
	int role;

	for (role = 0; role < ROLES; role++)
		if (sym->insns[role])
			fprintf(file, "function %s %s %s %lu %lu\n", sym->name, sym->module,
				role_names[role], sym->insns[role], sym->calls[role]);
}

static void begin(unsigned int cpu, void *data)
{
	struct symbol *sym;

	for (sym = symbols; sym < symbols + nr_symbols; sym++) {
		memset(sym->insns, 0, sizeof(sym->insns));
		memset(sym->calls, 0, sizeof(sym->calls));
	}
	memset(user.insns, 0, sizeof(user.insns));
	memset(acks, 0, sizeof(acks));
	counting = true;
}

static void stop(unsigned int cpu, void *data)
{
	char path[4096];
	size_t i;
	FILE *file;

	counting = false;
	snprintf(path, sizeof(path), "%s.%u", out_path, nr_out++);
	file = fopen(path, "w");
	if (!file) {
		perror(path);
		exit(1);
	}
	for (i = 0; i < nr_symbols; i++)
		print_symbol(file, &symbols[i]);
	print_symbol(file, &user);
	for (i = 0; i < OURS_MAX; i++)
		if (acks[i])
			fprintf(file, "ack %zu %lu\n", i, acks[i]);
	fclose(file);
}

/* Only the last instruction of a block can be a call or a return. */
static void watch_stack(struct qemu_plugin_tb *tb, size_t insns)
{
	struct qemu_plugin_insn *last = qemu_plugin_tb_get_insn(tb, insns - 1);
	char *text = qemu_plugin_insn_disas(last);

	if (!text) {
		fprintf(stderr, "count: this QEMU has no disassembler\n");
		exit(1);
	}
	if (strstr(text, "call") && !strstr(text, "syscall"))
		qemu_plugin_register_vcpu_mem_cb(last, called, QEMU_PLUGIN_CB_NO_REGS,
						 QEMU_PLUGIN_MEM_RW, NULL);
	else if (strstr(text, "ret") && !strstr(text, "sysret"))
		qemu_plugin_register_vcpu_mem_cb(last, returned, QEMU_PLUGIN_CB_NO_REGS,
						 QEMU_PLUGIN_MEM_RW, NULL);
	free(text);
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	static const exec_cb commands[] = { load, begin, stop };
	size_t insns = qemu_plugin_tb_n_insns(tb);
	uint64_t pc = qemu_plugin_tb_vaddr(tb);
	struct block *block;

	if (pc - COUNT_AT < sizeof(commands) / sizeof(*commands)) {
		qemu_plugin_register_vcpu_tb_exec_cb(tb, commands[pc - COUNT_AT],
						     QEMU_PLUGIN_CB_NO_REGS, NULL);
		return;
	}
	block = calloc(1, sizeof(*block));
	block->pc = pc;
	block->insns = insns;
	qemu_plugin_register_vcpu_tb_exec_cb(tb, pc < KERNEL_AT ? executed_user : executed,
					     QEMU_PLUGIN_CB_NO_REGS, block);
	if (pc >= KERNEL_AT)
		watch_stack(tb, insns);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info_t *info,
			       int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "symbols=", 8))
			symbols_path = strdup(argv[i] + 8);
		else if (!strncmp(argv[i], "out=", 4))
			out_path = strdup(argv[i] + 4);
	}
	if (!symbols_path || !out_path) {
		fprintf(stderr, "count: needs symbols=FILE,out=PREFIX\n");
		return 1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
