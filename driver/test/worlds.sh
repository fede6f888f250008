# Sourced by driver/test/run: the emulated machines, their devicetrees and command lines.
# $work is the folder of the run, $kept that of the kernels, $limit the time limit of a guest.

# Adds a node that reserves memory for the driver to $work/tree.
reserve() {
    fdtput -c "$work/tree" /reserved-memory
    fdtput -t x "$work/tree" /reserved-memory "#address-cells" 2
    fdtput -t x "$work/tree" /reserved-memory "#size-cells" 2
    fdtput "$work/tree" /reserved-memory ranges
    node=/reserved-memory/fathom@$reserved
    fdtput -c "$work/tree" "$node"
    fdtput -t s "$work/tree" "$node" compatible fathom,memory
    fdtput -t x "$work/tree" "$node" reg 0 "$reserved" 0 "$reserved_bytes"
}

# Writes the devicetree of world $1's machine, whose command is the other arguments. arm64's node has no no-map, so the
# driver must not use it.
virt_tree() {
    world=$1
    shift
    "$@" -M "dumpdtb=$work/tree" -nodefaults -display none >/dev/null 2>&1
    case $world in
        arm64-noncoherent) fdtput -d "$work/tree" /pcie@10000000 dma-coherent ;;
        arm64) reserve ;;
        # QEMU has the PMU, and describes it for 64-bit cores only. Its interrupt is 7 of each CPU: high level, of both CPUs or the only one.
        armhf*)
            fdtput -t s "$work/tree" /pmu compatible arm,cortex-a15-pmu
            fdtput -t x "$work/tree" /pmu interrupts 1 7 $([ "$world" = armhf ] && echo 304 || echo 104)
            ;;
        arm64-reserved)
            reserve
            fdtput "$work/tree" "$node" no-map
            ;;
    esac
    # QEMU leaves room in it for a mebibyte, with which a kernel with KASAN does not start.
    dtc -q -I dtb -O dtb -o "$work/packed" "$work/tree"
    mv "$work/packed" "$work/tree"
}

# Removes the Bluetooth chip from the first serial port, which would otherwise not be a console.
raspi3b_tree() {
    cp "$(ls "$kept/usr/lib/linux-image-"*-arm64/broadcom/bcm2837-rpi-3-b.dtb)" "$work/tree"
    fdtput -r "$work/tree" "$(fdtget "$work/tree" /aliases serial0)/bluetooth"
}

# Address and size of arm64-reserved's reserved memory, both in hexadecimal.
reserved=58000000 reserved_bytes=400000

# Boots world $1. Its clock counts instructions (4 ns each). So a transfer of edu, 100 ms of guest time, takes almost no
# host time, and runs are reproducible. Its CPUs take turns. x86's second CPU does not start with such a clock, so amd64
# has one, and amd64-smp has two that run in parallel, with the host's time. slub_debug detects the use of kmalloc memory
# after free. engines, coherent: bit n is engine n of the uapi. soft: the channel of driver/test/channel, on a device that
# is coherent on x86 only.
boot() {
    clock="tcg,thread=single -icount shift=2,sleep=off" slow=0 more='' soft=1 engines=7
    world=$1 arch=$(arch_of "$1")
    case $world in
        amd64) set -- ttyS0 qemu-system-x86_64 -M pc -cpu max -smp 1 ;;
        amd64-smp | amd64-checked)
            clock=tcg,thread=multi slow=1
            set -- ttyS0 qemu-system-x86_64 -M pc -cpu max -smp 2
            ;;
        arm64-checked)
            clock=tcg,thread=multi slow=1
            set -- ttyAMA0 qemu-system-aarch64 -M virt,gic-version=3 -cpu cortex-a53 -smp 2
            ;;
        raspi3b) set -- ttyAMA0 qemu-system-aarch64 -M raspi3b -smp 4 ;;
        # With a clock that counts instructions its second CPU does not start.
        armhf)
            clock=tcg,thread=multi slow=1
            set -- ttyAMA0 qemu-system-arm -M virt,highmem=off -cpu cortex-a15 -smp 2
            ;;
        armhf-exact) set -- ttyAMA0 qemu-system-arm -M virt,highmem=off -cpu cortex-a15 -smp 1 ;;
        armel) set -- ttyAMA0 qemu-system-arm -M raspi0 ;;
        *) set -- ttyAMA0 qemu-system-aarch64 -M virt,gic-version=3 -cpu cortex-a53 -smp 2 ;;
    esac
    console=$1
    shift
    case $world in
        # Finding a PCI interrupt with ACPI takes half a second of an emulated core at each load of the module. Only
        # ACPI names the second CPU, though.
        amd64) coherent=7 more=acpi=off ;;
        amd64*) coherent=7 more=acpi=noirq ;;
        # Without huge pages fathom asks the driver for pages of chosen colours.
        arm64-noncoherent) coherent=0 more=transparent_hugepage=never ;;
        arm64*) coherent=2 ;;
        raspi3b) coherent=0 soft=0 engines=5 ;;
        armhf) coherent=2 ;;
        armhf-exact) coherent=2 more=fathom.exact=1 ;;
        # QEMU has no registers of the power domains, no PMU and no attributes in the translations of this core, and
        # caches of 32 KiB, which alias. The system timer steps in microseconds.
        armel)
            coherent=0 soft=0 engines=5
            more="initcall_blacklist=bcm2835_power_driver_init fathom.raw=0 fathom.counters=0 fathom.recorders=0 fathom.pci=0 fathom.step=1000"
            ;;
    esac
    case $world in raspi3b | armel) ;; *) set -- "$@" -m "$(case $world in *-checked) echo 2048 ;; *) echo 1024 ;; esac)" -device edu,dma_mask=0xffffffff ;; esac
    case $world in
        arm64* | armhf*) virt_tree "$world" "$@" ;;
        raspi3b) raspi3b_tree ;;
        armel) cp "$(ls "$kept/usr/lib/linux-image-"*-rpi/bcm2835-rpi-zero.dtb)" "$work/tree" ;;
    esac
    # What the kernel tells while allocations fail would overwrite earlier reports.
    case $world in *-checked) more="$more log_buf_len=16M" ;; esac
    [ "$world" != arm64-reserved ] \
        || more="fathom.reserved=$((0x$reserved)) fathom.reserved_bytes=$((0x$reserved_bytes))"
    [ "$(debian_arch "$arch")" = amd64 ] || set -- "$@" -dtb "$work/tree"
    nice timeout -k 5 "$limit" "$@" -accel $clock -seed 1 \
        -rtc base=2020-01-01T00:00:00,clock=vm -nodefaults -display none -monitor none -no-reboot \
        -serial "file:$work/console" -kernel "$(kernel_of "$arch")" -initrd "$work/initramfs" \
        -append "console=$console loglevel=4 panic=-1 oops=panic slub_debug=FZP,kmalloc-* fathom.engines=$engines \
fathom.coherent=$coherent fathom.soft=$soft fathom.slow=$slow fathom.calls=$calls fathom.seed=$seed fathom.soak=$((soak > 0)) $more" \
        </dev/null >&2 &
    pid=$!
    booted=0
    await
    wait "$pid" || booted=$?
    pid=
}
