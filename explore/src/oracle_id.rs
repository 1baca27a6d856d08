//! The oracles by name, and how much their verdicts matter. The modules of `oracle` judge. Pure.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Declares the oracles with their names, summaries and severities.
macro_rules! oracles {
    ($($id:ident $name:literal $severity:ident $summary:literal;)*) => {
        /// An oracle.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum OracleId {
            $(#[doc = concat!("Fails when ", $summary, ".")] #[serde(rename = $name)] $id,)*
        }

        impl OracleId {
            /// All oracles, the ones first that say most about what is wrong: of a run that fails by several, the first one names the
            /// finding.
            pub const ALL: &'static [Self] = &[$(Self::$id,)*];

            /// Name in scenarios and reports.
            pub fn name(self) -> &'static str {
                match self { $(Self::$id => $name,)* }
            }

            /// When it fails, in a sentence.
            pub fn summary(self) -> &'static str {
                match self { $(Self::$id => $summary,)* }
            }

            /// Severity unless the scenario says otherwise.
            pub fn severity(self) -> Severity {
                match self { $(Self::$id => Severity::$severity,)* }
            }
        }
    };
}

oracles! {
    Invariant "invariant" Bug "an invariant of the scenario is false at a revision";
    Expect "expect" Bug "an expectation of the scenario fails";
    Undeleted "undeleted" Bug "an object that a step deleted still exists";
    Stuck "stuck" Bug "a wait ran out, or the run ended busy";
    HotLoop "hot-loop" Bug "after convergence one client goes on writing one object without input";
    RequestStorm "request-storm" Bug "equal requests with equal answers follow each other without pause";
    DestructiveSurplus "destructive-surplus" Bug "an object was deleted more often than in any reference";
    Exit "exit" Bug "a program ended by itself, in no reference";
    EndState "end-state" Bug "the normalised end state equals no reference's";
    Orphan "orphan" Bug "an object has an owner that does not exist, or is one that no reference has";
    Refused "refused" Bug "the server refused a program's request, in no reference";
    Regress "regress" Suspicion "observedGeneration went down, exceeds generation, or a terminal phase changed";
    LostUpdate "lost-update" Suspicion "a write put back a value that another had changed after the writer's view";
    Overlap "overlap" Suspicion "two instances of a program wrote to one object in turns";
    Late "late" Suspicion "the run converged only after several times the patience";
    StaleWrite "stale-write" Note "a write that no reference makes, whose basis lacks a change of a related object";
}

impl OracleId {
    /// The oracle of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|oracle| oracle.name() == name)
    }

    /// Whether it judges a run without comparing it with references, so that references are judged, too.
    pub fn needs_no_reference(self) -> bool {
        matches!(
            self,
            Self::Stuck
                | Self::HotLoop
                | Self::RequestStorm
                | Self::Invariant
                | Self::Expect
                | Self::Undeleted
                | Self::Exit
                | Self::Regress
        )
    }
}

impl fmt::Display for OracleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How much a verdict matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It explains others.
    Note,
    /// It is listed, and no failure unless the command line is strict.
    Suspicion,
    /// It is a failure.
    Bug,
}

impl Severity {
    /// The severity of a name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Note, Self::Suspicion, Self::Bug].into_iter().find(|severity| severity.name() == name)
    }

    /// Name in scenarios and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Suspicion => "suspicion",
            Self::Bug => "bug",
        }
    }
}
