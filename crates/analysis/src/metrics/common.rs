//! Metrics that every experiment may report.

use crate::findings::{Compared, metrics, tokens};

metrics! {
    DISTURBED "disturbed" [""]
        "whether something disturbed the measurement (other work, a changed core clock); the causes are in the notes"
        .token(&tokens::DISTURBED);
    BIAS_TIMER "bias.timer" ["ticks", "cycles"]
        "time that reading the clock adds to a timed interval"
        .signed().compared(Compared::OnRequest);
    BIAS_WALK "bias.walk" ["ns"]
        "translation time in a load of the latency curve's largest working sets; base pages only"
        .signed().compared(Compared::OnRequest);
    BIAS_SAMPLE "bias.sample" ["cycles", "ns"]
        "time that timing adds to a sample of single loads; subtracted from the peaks, not from the histograms"
        .signed();
    SAMPLES_VERIFIED "samples.verified" ["samples"]
        "number of samples whose work was verified, on an emulator, whose times are not shown";
    CLOCK_CORE_HZ "clock.core_hz" ["Hz"]
        "core clock during the measurement, from a chain of dependent instructions"
        .compared(Compared::OnRequest);
    CLOCK_TICK_HZ "clock.tick_hz" ["Hz"]
        "frequency of the counter that serves as clock"
        .compared(Compared::OnRequest);
}
