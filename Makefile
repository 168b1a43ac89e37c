# SPDX-License-Identifier: GPL-2.0
# User targets; "make help" lists them. kbuild reads the file Kbuild instead.

VERSION := $(shell sed -n 's/^PACKAGE_VERSION="\(.*\)"$$/\1/p' dkms.conf)

KVER	?= $(shell uname -r)
KDIR	?= /lib/modules/$(KVER)/build
DESTDIR	?=
PREFIX	?= /usr/local
BINDIR	?= $(PREFIX)/bin
MANDIR	?= $(PREFIX)/share/man
DATADIR	?= $(PREFIX)/share/hpcc
# An ordinary user's PATH lacks depmod, dkms, ip and tc.
export PATH := $(PATH):/usr/local/sbin:/usr/sbin:/sbin
# Directory of tc's plugins; on Debian it is below the multiarch directory.
MULTIARCH := $(shell $(CC) -print-multiarch 2>/dev/null)
TC_LIB_DIR ?= $(firstword $(wildcard /usr/lib/$(MULTIARCH)/tc /usr/lib64/tc) /usr/lib/tc)
COMPLETION_DIR ?= $(PREFIX)/share/bash-completion/completions
# Directory of the scripts of Wireshark and tshark. It has the same parent directory as that of tc's plugins.
WIRESHARK_DIR ?= $(patsubst %/tc,%,$(TC_LIB_DIR))/wireshark/plugins

OUT	?= out
SEED	?= 1
DEMO	?= scripts/scenarios/demo.toml
DEMO_CC	?= hpcc,ldcp,dctcp,bbr,cubic
CONFIG	?= scripts/paper/star16.toml

MANPAGES := $(wildcard Documentation/*.[178])

all: tools plugin modules

help:
	@echo 'HPCC++ for Linux $(VERSION)'
	@echo ''
	@echo '  demo          compare HPCC++ and LDCP with cubic, dctcp, bbr in virtual time; report in $(OUT)/demo'
	@echo '  check         run the tests; HPCC_CHECK_LONG=1: also the long tests, which take two thirds of the time'
	@echo '  check-unit, check-replay, check-fuzz, check-scripts, check-lab, check-net    run one layer of check'
	@echo '                (T="sch_hpcc stamp": only these scripts)'
	@echo '  check-uml     run check-net in a guest with KERNEL=X.Y: 6.1, 6.12 or 7.2'
	@echo '  captures      write selftests/captures; check-unit compares the packets of the code with them'
	@echo '  fuzz          run each fuzz target for FUZZ_SECONDS (60); T=stamp: only this one'
	@echo '  fuzz-packets, fuzz-netlink  send FUZZ_PACKETS (10^7) packets, FUZZ_MESSAGES (10^5) messages;'
	@echo '                DEBUG=1: to a kernel with KASAN and lockdep'
	@echo '  fuzz-delivery send FUZZ_PACKETS (10^6) packets to hosts with and without the modules, compare the results'
	@echo '  check-vm      run check-net on the kernel that Debian ships (KERNEL=X.Y), in QEMU with 2 CPUs;'
	@echo '                ACCEL=icount: with one CPU whose clock counts instructions'
	@echo '  check-debug   run check-net in a guest with KASAN, lockdep, kmemleak, UBSAN (7.2)'
	@echo '  check-smp     run check-net in QEMU with 2 CPUs (KASAN, lockdep); check-kcsan: with KCSAN (data races)'
	@echo '  check-nic     test ports with the drivers of network cards that QEMU emulates (e1000e, vmxnet3, virtio)'
	@echo '  check-containers  run Podman, Docker and a CNI plugin in QEMU with the recipes of containers.rst'
	@echo '  check-icount  check that two equal runs in QEMU with counted instructions give equal results'
	@echo '  check-cost    compare the instructions per packet of hpcc and fq_codel, counted by QEMU'
	@echo '  check-all     run all tests on all kernels, print a table (T="vm-7.2": only this row); this takes hours'
	@echo '  check-arch    test on ARCH=s390x (big-endian), arm64, riscv64, or amd64 (PREEMPT_RT, clang); T="programs": only this'
	@echo '  check-neutral run the kernel'"'"'s own selftests in QEMU with and without our modules, compare the results'
	@echo '  coverage      run check-net, count the lines of the modules that it runs; report in $(OUT)/coverage'
	@echo '  style         run checkpatch, sparse, W=1, kernel-doc, shellcheck, and check the manual pages'
	@echo '  figures       print the figures of the structure: circles of files, lines, sizes of modules; write them to'
	@echo '                Documentation/results/house.rst (RST=FILE: to this page)'
	@echo '  paper         run workloads x loads x congestion controls x seeds; tables and figures in $(OUT)/paper/NAME'
	@echo '                (CONFIG=GRID.toml; RST=FILE: write the page there; JOBS=N; PROFILE=NAME: Snakemake profile)'
	@echo '  evaluate      run the tests of BCP 133 for congestion controls; verdicts in $(OUT)/evaluate'
	@echo '                (NAMES=hpcc,cubic; RST=FILE: also write the table to this page)'
	@echo '  bench-core    measure HPCC++, and compare the figures with their targets'
	@echo '  bench-ldcp    measure LDCP, and compare the figures with their targets and with dctcp, cubic and hpcc'
	@echo '  bench-observe measure hpccmon observe on flows of other congestion controls'
	@echo '                (RST=FILE: bench-core, -ldcp and -observe also write their table to this page)'
	@echo '  bench-kernel  count instructions per segment at sender, switch, receiver; compare with cubic and fq_codel'
	@echo '                (BEFORE=FILE: compare with an earlier results.json; PART="count shaped": only these parts)'
	@echo '  bench-lab     measure the CPU time of the testbed per packet and switch, system call and run'
	@echo ''
	@echo '  all           modules for the running kernel, tc plugin, tools (default)'
	@echo '  modules       kernel modules for KDIR=$(KDIR)'
	@echo '  plugin        q_hpcc.so for tc'
	@echo '  tools         hpccmon, hpcc-replay, hpcc-network and hpcc-traffic'
	@echo '  install       install modules, plugins, manual pages, hpcc-lab (DESTDIR, PREFIX, TC_LIB_DIR, WIRESHARK_DIR)'
	@echo '  install-user  install all of these except the modules, for example if DKMS builds the modules'
	@echo '  uninstall     remove what install installed'
	@echo '  dkms          register the modules with DKMS, which rebuilds them after kernel updates'
	@echo '  deb           build the Debian packages hpcc-dkms and hpcc-tools, in $(OUT)/deb'
	@echo '  check-deb     install, use and purge the packages in a fresh Debian (SUITE=trixie); needs root'
	@echo '  clean         remove everything that was built here, except the cached kernel of the testbed'

# ---- the testbed: these targets do not change this machine's kernel or network

deps:
	@scripts/install-deps

deps-bench:
	@scripts/install-deps lab test vm

deps-paper:
	@scripts/install-deps lab paper

deps-test:
	@scripts/install-deps lab test

demo: deps
	@scripts/hpcc-lab compare $(DEMO) --cc $(DEMO_CC) --seed $(SEED) --out $(OUT)/demo

paper: deps-paper
	@scripts/hpcc-paper $(CONFIG) --out $(OUT)/paper/$(basename $(notdir $(CONFIG))) $(RST:%=--rst %) \
		$(JOBS:%=--jobs %) $(PROFILE:%=--profile %)

bench-observe: deps-test tools
bench-core bench-ldcp bench-lab bench-observe: deps
	@scripts/$@
	$(if $(RST),@scripts/bench-rst $(OUT)/$@/results.json $(RST))

evaluate: deps
	@scripts/hpcc-lab evaluate --cc $(or $(NAMES),hpcc) --out $(OUT)/$@
	$(if $(RST),@scripts/bench-rst $(OUT)/$@/evaluate.json $(RST))

bench-kernel: deps-bench plugin tools
	@scripts/$@ $(if $(BEFORE),--before $(BEFORE)) $(PART:%=--only %)

check:
	@scripts/install-deps lab test paper vm
	@scripts/check

check-lab: deps-paper

check-unit check-replay check-fuzz check-scripts check-lab check-net check-style: deps-test
	@scripts/check $(@:check-%=%) $(T)

captures: deps-test
	@$(MAKE) -s --no-print-directory -C selftests/unit build/test_captures
	@HPCC_CAPTURES_WRITE=1 selftests/unit/build/test_captures

check-uml: deps-test
	@HPCC_KERNEL=$(KERNEL) scripts/check net $(T)

FUZZ_SECONDS ?= 60

fuzz: deps-test
	@$(MAKE) -s --no-print-directory -C selftests/fuzz -j 2
	@selftests/fuzz/run.py --keep --seconds $(FUZZ_SECONDS) $(T)

# The default number of packets takes a night. DEBUG=1 selects the debug guest.
FUZZ_PACKETS ?= 10000000
FUZZ_MESSAGES ?= 100000
FUZZ_SEED ?= 1

fuzz-delivery: FUZZ_PACKETS = 1000000

fuzz-packets fuzz-netlink fuzz-delivery: deps-test
	@HPCC_KERNEL=$(or $(KERNEL),$(if $(DEBUG),7.2)) HPCC_FUZZ_PACKETS=$(FUZZ_PACKETS) \
		HPCC_FUZZ_MESSAGES=$(FUZZ_MESSAGES) HPCC_FUZZ_SEED=$(FUZZ_SEED) \
		HPCC_TIMEOUT=86400 HPCC_CHECK_TIMEOUT=86400 \
		scripts/check $(if $(DEBUG),debug,net) $(patsubst fuzz_delivery,delivery,$(subst -,_,$@))

check-vm:
	@scripts/install-deps lab test vm
	@HPCC_KERNEL=$(KERNEL) HPCC_VM_ACCEL=$(or $(ACCEL),$(HPCC_VM_ACCEL)) scripts/check vm $(T)

check-neutral:
	@scripts/install-deps lab test vm neutral
	@scripts/neutral $(T)

check-debug: deps-test
	@HPCC_KERNEL=$(or $(KERNEL),7.2) scripts/check debug $(T)

check-smp check-kcsan:
	@scripts/install-deps lab test vm
	@HPCC_SMP_DEBUG=$(if $(filter check-smp,$@),kasan,kcsan) HPCC_KERNEL=$(KERNEL) scripts/check vm $(T)

check-nic:
	@scripts/install-deps lab test vm
	@HPCC_KERNEL=$(KERNEL) scripts/check selftests/vm/nic.sh

check-containers:
	@scripts/install-deps lab test vm
	@HPCC_KERNEL=$(KERNEL) HPCC_CHECK_TIMEOUT=3600 scripts/check selftests/vm/containers.sh

check-icount:
	@scripts/install-deps lab test vm
	@HPCC_KERNEL=$(KERNEL) scripts/check selftests/vm/icount.sh

check-cost:
	@scripts/install-deps lab test vm
	@scripts/check selftests/vm/cost.sh

check-all:
	@scripts/install-deps lab test paper vm deb neutral arch
	@scripts/check-all $(T)

check-arch:
	@scripts/install-deps lab test arch
	@scripts/check-arch $(ARCH) $(T)

coverage:
	@scripts/install-deps lab test coverage
	@scripts/coverage $(T)

style: deps-test
	@scripts/style

figures: deps
	@scripts/figures $(RST)

# ---- modules for this machine or another kernel

# The command that installs the headers of a kernel, without the kernel's version.
HEADERS := $(if $(shell command -v dnf),dnf install kernel-devel,apt-get install linux-headers)

# The compiler and linker of the kernel's build, because gcc rejects options of clang. DKMS selects them itself.
kernel-has = $(shell sed -n 's/^CONFIG_$(1)=//p' $(firstword $(wildcard $(KDIR)/.config $(KDIR)/include/config/auto.conf) /dev/null))
tool = $(if $(shell command -v $(1)-$(CLANG)),$(1)-$(CLANG),$(1))
clang-tools = $(if $(call kernel-has,LD_IS_LLD),LLVM=$(patsubst clang%,%,$(filter clang-%,$(call tool,clang))),CC=$(call tool,clang))
KERNEL_TOOLS = $(if $(call kernel-has,CC_IS_CLANG),$(if $(filter command% environment%,$(origin LLVM) $(origin CC)),,$(patsubst LLVM=,LLVM=1,$(clang-tools))))
CLANG = $(shell expr 0$(call kernel-has,CLANG_VERSION) / 10000)

modules: kernel-ready
	$(MAKE) -C $(KDIR) M=$(CURDIR) $(KERNEL_TOOLS) modules

kernel-ready:
	@if [ -e $(KDIR)/Makefile ]; then exit 0; \
	elif [ ! -e /proc/modules ] && [ "$(KVER)" = "$$(uname -r)" ] && [ "$(origin KDIR)" = file ]; then \
		echo 'modules: the running kernel $(KVER) has no support for loadable modules; "make demo" needs no modules' >&2; \
	else \
		echo 'modules: no kernel headers in $(KDIR); install them with: $(HEADERS)-$(KVER)' >&2; \
	fi; exit 1

plugin:
	@$(MAKE) -s --no-print-directory -C qdisc

tools:
	@$(MAKE) -s --no-print-directory -C tools

# A distribution's package of headers does not contain the key that its configuration uses to sign modules.
NO_KEY = $(if $(wildcard $(KDIR)/certs/signing_key.pem),,CONFIG_MODULE_SIG_ALL=)

install: all
	$(MAKE) -C $(KDIR) M=$(CURDIR) $(KERNEL_TOOLS) $(if $(DESTDIR),INSTALL_MOD_PATH=$(abspath $(DESTDIR))) \
		$(NO_KEY) modules_install
	$(if $(DESTDIR),,depmod -a $(KVER))
	@$(MAKE) --no-print-directory install-user

# Files that a build of the modules needs.
KBUILD_FILES := $(filter-out %.mod.c,Kbuild dkms.conf $(wildcard scripts/kbuild/* \
	include/hpcc/*.* include/hpcc/*/*.h include/compat/*/*.h include/uapi/linux/*.h kmod/Kbuild kmod/*/Kbuild kmod/*/*.[ch] kmod/*/*/*.[ch] \
	qdisc/Kbuild qdisc/Makefile qdisc/*.[ch] qdisc/*/*.[ch]))
# Files that hpcc-lab needs: its own, and those from which it builds guests and modules.
LAB_FILES := $(KBUILD_FILES) scripts/hpcc-lab scripts/hpcc-paper scripts/compare-ns3 scripts/debian.sh scripts/limit.py scripts/root.sh \
	$(wildcard scripts/lab/*.py scripts/lab/*/*.py scripts/lab/show/page.css scripts/lab/show/page.js \
	scripts/lab/show/dygraphs.licence scripts/lab/model/workloads/*.csv scripts/lab/study/published/*.csv \
	scripts/paper/Snakefile scripts/paper/*.toml scripts/paper/networks/*.toml \
	scripts/uml/* scripts/vm/* scripts/scenarios/*.toml scripts/examples/*.c scripts/scenarios/ns3/*.xz \
	tools/Makefile tools/network/*.[ch] tools/traffic/*.[ch] tools/include/*/*.h)

# Scripts that are installed as commands.
COMMANDS := hpcc-lab hpcc-paper compare-ns3

COMPLETIONS := $(wildcard tools/completion/*)
DISSECTORS := $(wildcard tools/wireshark/*.lua)

# Install the files that do not depend on the kernel.
install-user: plugin tools
	install -d $(DESTDIR)$(TC_LIB_DIR) $(DESTDIR)$(BINDIR) $(DESTDIR)$(DATADIR) \
		$(DESTDIR)$(MANDIR)/man1 $(DESTDIR)$(MANDIR)/man7 $(DESTDIR)$(MANDIR)/man8
	install -m 644 qdisc/q_hpcc.so $(DESTDIR)$(TC_LIB_DIR)/
	install -m 644 $(filter %.1,$(MANPAGES)) $(DESTDIR)$(MANDIR)/man1/
	install -m 644 $(filter %.7,$(MANPAGES)) $(DESTDIR)$(MANDIR)/man7/
	install -m 644 $(filter %.8,$(MANPAGES)) $(DESTDIR)$(MANDIR)/man8/
	install -m 755 tools/hpccmon/hpccmon tools/hpcc-replay $(DESTDIR)$(BINDIR)/
	install -D -m 644 -t $(DESTDIR)$(COMPLETION_DIR) $(COMPLETIONS)
	install -m 644 Documentation/netlink/specs/*.yaml $(DESTDIR)$(DATADIR)/
	install -D -m 644 tools/grafana/hpcc.json $(DESTDIR)$(DATADIR)/grafana/hpcc.json
	install -D -m 644 -t $(DESTDIR)$(WIRESHARK_DIR) $(DISSECTORS)
	tar -cf - $(LAB_FILES) | tar -C $(DESTDIR)$(DATADIR) --no-same-owner -xf -
	for name in $(COMMANDS); do \
		ln -sf $(DATADIR)/scripts/$$name $(DESTDIR)$(BINDIR)/$$name || exit; done

DKMS_HAS = $(if $(DESTDIR),,$(wildcard /var/lib/dkms/hpcc/$(VERSION)))
DKMS_TREE = $(DESTDIR)/usr/src/hpcc-$(VERSION)

uninstall:
	$(if $(DKMS_HAS),dkms remove hpcc/$(VERSION) --all; rm -rf $(DKMS_TREE))
	rm -f $(DESTDIR)$(TC_LIB_DIR)/q_hpcc.so $(addprefix $(DESTDIR)$(WIRESHARK_DIR)/,$(notdir $(DISSECTORS))) $(addprefix $(DESTDIR)$(BINDIR)/,$(COMMANDS) hpcc-replay hpccmon) \
		$(addprefix $(DESTDIR)$(COMPLETION_DIR)/,$(notdir $(COMPLETIONS))) \
		$(foreach page,$(notdir $(MANPAGES)),$(DESTDIR)$(MANDIR)/man$(subst .,,$(suffix $(page)))/$(page))
	rm -rf $(DESTDIR)$(DATADIR)
	for module in $$(bash -c '. ./dkms.conf; echo $$HPCC_MODULES'); do \
		rm -f $(DESTDIR)/lib/modules/$(KVER)/*/$$module.ko* || exit; done
	$(if $(DESTDIR),,depmod -a $(KVER))

dkms-source:
	install -d $(DKMS_TREE)
	tar -cf - $(KBUILD_FILES) | tar -C $(DKMS_TREE) --no-same-owner -xf -

# First remove this version from DKMS: it may have been registered from other sources.
dkms:
	$(if $(DKMS_HAS),dkms remove hpcc/$(VERSION) --all; rm -rf $(DKMS_TREE))
	@$(MAKE) --no-print-directory dkms-source
	dkms install hpcc/$(VERSION) -k $(KVER)

deb:
	@scripts/install-deps deb
	@scripts/deb $(OUT)/deb

check-deb:
	@scripts/install-deps deb
	@SUITE=$(SUITE) HPCC_CHECK_TIMEOUT=7200 scripts/check selftests/deb/test_deb.sh

# This works without kernel headers: the names of all files that kbuild creates are known.
clean:
	@$(MAKE) -s --no-print-directory -C qdisc clean
	@$(MAKE) -s --no-print-directory -C tools clean
	@$(MAKE) -s --no-print-directory -C selftests/unit clean
	@$(MAKE) -s --no-print-directory -C selftests/fuzz clean
	find kmod qdisc \( -name '*.o' -o -name '*.ko' -o -name '*.mod' -o -name '*.mod.c' \
		-o -name '.*.cmd' -o -name '.*.d' -o -name modules.order \) -delete
	rm -f modules.order Module.symvers .modules.order.cmd .Module.symvers.cmd .hpcc-probes \
		.module-common.o ..module-common.o.cmd
	find scripts selftests -name __pycache__ -prune -exec rm -rf {} +
	rm -rf $(OUT)

.PHONY: all help deps deps-bench deps-paper deps-test demo evaluate paper bench-core bench-ldcp bench-lab bench-observe bench-kernel check check-unit check-replay check-fuzz captures fuzz fuzz-packets fuzz-netlink fuzz-delivery \
	check-scripts check-lab check-net check-style check-uml check-vm check-debug check-neutral check-smp check-kcsan \
	check-nic check-containers check-icount check-cost check-all check-arch coverage style figures modules \
	kernel-ready plugin tools install install-user uninstall \
	dkms dkms-source deb check-deb clean
