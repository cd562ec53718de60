//! Jobs by the calendar: on Tuesdays at nine, on Thursdays at nine, and on the twelfth of the month at nine.
//!
//! Nine o'clock is a civil time: in most zones the days on which the clocks change have twenty-three or
//! twenty-five hours. `jiff` computes the moment; a `TimerMap` waits for it. The runtime's time is virtual, so that two years
//! pass in a moment. At the end the jobs must have run on exactly the days that a plain walk through the calendar
//! finds, at exactly nine: then the exit status is 0, and otherwise 1.
//!
//! Run it with `cargo run --example calendar -- --zone Europe/Berlin --list`.

#[path = "common/say.rs"]
mod say;
#[path = "common/verdict.rs"]
mod verdict;

use std::process::ExitCode;

use clap::Parser;
use jiff::civil::{Date, Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan, Zoned};
use mainspring::Builder;
use mainspring::time::{Instant, TimerMap};

use say::say;

/// Calendar jobs, under a virtual clock.
#[derive(Debug, Parser)]
#[command(name = "calendar")]
struct Options {
    /// Whose nine o'clock: a time zone by its name, such as Europe/Berlin or America/New_York
    #[arg(long, value_name = "ZONE", default_value = "UTC", value_parser = zone)]
    zone: TimeZone,
    /// The day on which to begin
    #[arg(long, value_name = "DATE", default_value = "2026-01-01", value_parser = date)]
    from: Date,
    /// How many days
    #[arg(long, value_name = "N", default_value_t = 730, value_parser = clap::value_parser!(u32).range(1..=36_525))]
    days: u32,
    /// Print every run
    #[arg(long)]
    list: bool,
}

fn zone(name: &str) -> Result<TimeZone, String> {
    TimeZone::get(name).map_err(|_| "no such time zone; write for example Europe/Berlin or UTC".to_owned())
}

fn date(text: &str) -> Result<Date, String> {
    let date: Date = text.parse().map_err(|_| "not a date; write for example 2026-01-31".to_owned())?;
    if (1900..=2200).contains(&date.year()) {
        Ok(date)
    } else {
        Err("must lie between 1900 and 2200".to_owned())
    }
}

/// When the jobs run.
const NINE: Time = Time::constant(9, 0, 0, 0);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Job {
    Tuesday,
    Thursday,
    Twelfth,
}

impl Job {
    const ALL: [Job; 3] = [Job::Tuesday, Job::Thursday, Job::Twelfth];

    /// Whether the job runs on that day.
    fn is_on(self, day: Date) -> bool {
        match self {
            Job::Tuesday => day.weekday() == Weekday::Tuesday,
            Job::Thursday => day.weekday() == Weekday::Thursday,
            Job::Twelfth => day.day() == 12,
        }
    }

    /// The first time after `now` at which the job runs.
    fn next(self, now: &Zoned) -> Result<Zoned, jiff::Error> {
        let day = match self {
            Job::Tuesday => next_weekday(now, Weekday::Tuesday)?,
            Job::Thursday => next_weekday(now, Weekday::Thursday)?,
            Job::Twelfth => {
                let this = now.date().with().day(12).build()?;
                let passed = now.datetime() >= this.to_datetime(NINE);
                if passed { this.checked_add(1.month())? } else { this }
            }
        };
        day.to_datetime(NINE).to_zoned(now.time_zone().clone())
    }
}

fn next_weekday(now: &Zoned, weekday: Weekday) -> Result<Date, jiff::Error> {
    let today = now.date();
    if today.weekday() == weekday && now.time() < NINE { Ok(today) } else { today.nth_weekday(1, weekday) }
}

fn main() -> ExitCode {
    let options = Options::parse();
    verdict::conclude("calendar", run(&options))
}

fn run(options: &Options) -> Result<String, String> {
    let runtime = Builder::new()
        .start_paused(true)
        .build()
        .map_err(|error| format!("cannot make a runtime: {error}"))?;
    let real = std::time::Instant::now();
    let ran = runtime.block_on(wait_for_jobs(options)).map_err(|error| format!("the calendar: {error}"))?;
    let expected = walk(options).map_err(|error| format!("the calendar: {error}"))?;
    if options.list {
        for (at, job) in &ran {
            let line = format!("{}  {job:?}", at.strftime("%a %Y-%m-%d %H:%M:%S %Z"));
            say(line).map_err(|error| error.to_string())?;
        }
    }
    let mut sorted: Vec<(Timestamp, Job)> = ran.iter().map(|(at, job)| (at.timestamp(), *job)).collect();
    if !sorted.is_sorted_by_key(|(at, _)| *at) {
        return Err("the jobs ran out of order".to_owned());
    }
    sorted.sort_unstable();
    if let Some((ran, should)) = sorted.iter().zip(&expected).find(|(ran, should)| ran != should) {
        return Err(format!("{ran:?} ran where {should:?} should have"));
    }
    if sorted.len() != expected.len() {
        return Err(format!("{} jobs ran, not {}", sorted.len(), expected.len()));
    }
    let count = |job| ran.iter().filter(|(_, ran)| *ran == job).count();
    Ok(format!(
        "{} days in {:.2?}: {} Tuesdays, {} Thursdays, {} twelfths, each at nine in {}, as the calendar says",
        options.days,
        real.elapsed(),
        count(Job::Tuesday),
        count(Job::Thursday),
        count(Job::Twelfth),
        options.zone.iana_name().unwrap_or("its zone"),
    ))
}

/// Runs each job when its time has come. Returns when each one ran.
async fn wait_for_jobs(options: &Options) -> Result<Vec<(Zoned, Job)>, jiff::Error> {
    let begin = options.from.to_zoned(options.zone.clone())?;
    let end = options.from.checked_add(i64::from(options.days).days())?.to_zoned(options.zone.clone())?;
    // These convert a moment of the runtime's time into civil time, and back.
    let start = Instant::now();
    let wall = |moment: Instant| begin.checked_add(SignedDuration::try_from(moment - start)?);
    let moment = |wall: &Zoned| start + wall.duration_since(&begin).unsigned_abs();

    let mut jobs = TimerMap::new();
    for job in Job::ALL {
        let first = job.next(&begin)?;
        jobs.insert_at(job, (), moment(&first));
    }
    let mut ran = Vec::new();
    while let Some((job, ())) = jobs.next_expired().await {
        let now = wall(Instant::now())?;
        if now >= end {
            break;
        }
        jobs.insert_at(job, (), moment(&job.next(&now)?));
        ran.push((now, job));
    }
    Ok(ran)
}

/// When the jobs should run: day after day, in the order of the calendar.
fn walk(options: &Options) -> Result<Vec<(Timestamp, Job)>, jiff::Error> {
    let mut all = Vec::new();
    for day in options.from.series(1.day()).take(options.days as usize) {
        for job in Job::ALL.into_iter().filter(|job| job.is_on(day)) {
            all.push((day.to_datetime(NINE).to_zoned(options.zone.clone())?.timestamp(), job));
        }
    }
    all.sort_unstable();
    Ok(all)
}
