//! What every experiment finds.

use crate::findings::{Compared, metrics, words};

metrics! {
    DISTURBED "disturbed" [""]
        "did other work disturb the measurement; the causes are in the notes"
        .word(&words::DISTURBED);
    BIAS_TIMER "bias.timer" ["ticks", "cycles"]
        "what reading the clock adds to a timed interval"
        .signed().compared(Compared::OnRequest);
    BIAS_WALK "bias.walk" ["ns"]
        "translation in a load of the latency curve's largest steps; base pages only"
        .signed().compared(Compared::OnRequest);
    BIAS_SAMPLE "bias.sample" ["cycles", "ns"]
        "what timing adds to a sample of single loads; taken off the peaks, not off the histograms"
        .signed();
    PROVEN "proven" ["samples"]
        "samples that proved their work, of an emulator, whose times are not shown";
    CLOCK_CORE_HZ "clock.core_hz" ["Hz"]
        "core clock while measuring, from a chain of dependent instructions"
        .compared(Compared::OnRequest);
    CLOCK_TICK_HZ "clock.tick_hz" ["Hz"]
        "rate of the counter that was read"
        .compared(Compared::OnRequest);
}
