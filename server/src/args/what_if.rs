//! Flags of `kstore-server what-if`, which the module `what_if` carries out.

use super::AnswerOutput;
use super::flag::{Choice, Flag, add, chosen, list, parsed, put, repeated, words};
use std::path::PathBuf;

pub(super) const HELP: &str = "\
Reads the cluster with the rights of the kubeconfig, makes the changes on a copy in memory with controllers, scheduler and simulated nodes \
in virtual time, and prints what has a node then, what is pending and why, and what was evicted or lost. The server is not changed. The \
answer says what is feasible at that revision; it reserves nothing. Equal questions about equal states have equal answers.

Admission, defaults, quota and policies apply on the copy; webhooks are not asked. The exit code is 1 if something is pending, evicted or \
lost that was not before.

Examples:
  kstore-server what-if -f web.yaml
  kstore-server what-if -f web.yaml --without node/node-2 --with-nodes 2xnode/node-1
  kstore-server what-if --drain node/node-0 -o json
  kstore-server what-if --scale deployment/web=40 --at 5m";

pub(super) const FLAGS: &[Flag<WhatIfArgs>] = &[
    Flag::value(
        "filename",
        "FILE",
        |o: &mut WhatIfArgs, text| add(&mut o.files, parsed(text)),
        "File or folder with objects that are created, or applied if they exist. May be repeated",
    )
    .shaped(|arg| repeated(arg.short('f'))),
    Flag::value(
        "without",
        "NODE",
        |o: &mut WhatIfArgs, text| add(&mut o.without, parsed(text)),
        "The node is gone with its pods",
    )
    .shaped(list),
    Flag::value(
        "drain",
        "NODE",
        |o: &mut WhatIfArgs, text| add(&mut o.drain, parsed(text)),
        "The node is cordoned and its pods are evicted, as far as disruption budgets allow",
    )
    .shaped(list),
    Flag::value(
        "with-nodes",
        "NxNODE",
        |o: &mut WhatIfArgs, text| add(&mut o.with_nodes, parsed(text)),
        "N more nodes like NODE, for example 2xnode/node-1",
    )
    .shaped(list),
    Flag::value(
        "scale",
        "KIND/NAME=N",
        |o: &mut WhatIfArgs, text| add(&mut o.scale, parsed(text)),
        "The workload has N replicas",
    )
    .shaped(list),
    Flag::value(
        "delete",
        "KIND/NAME",
        |o: &mut WhatIfArgs, text| add(&mut o.delete, parsed(text)),
        "The object is deleted, with what it owns",
    )
    .shaped(list),
    Flag::value(
        "at",
        "REVISION",
        |o: &mut WhatIfArgs, text| put(&mut o.at, parsed(text).map(Some)),
        "Ask about the state of a revision, such as 412 or 5m, instead of the newest one",
    ),
    Flag::choice(
        ("fail-on", "WHAT"),
        words::<FailOn>,
        |o: &mut WhatIfArgs, word| add(&mut o.fail_on, chosen(word)),
        "What gives exit code 1 [default: pending,evicted,lost]",
    )
    .shaped(list),
    Flag::value(
        "namespace",
        "NAMESPACE",
        |o: &mut WhatIfArgs, text| put(&mut o.namespace, parsed(text).map(Some)),
        "Namespace of objects that name none [default: the kubeconfig's]",
    )
    .shaped(|arg| arg.short('n')),
    Flag::path(
        "kubeconfig",
        "FILE",
        |o: &mut WhatIfArgs, path| o.kubeconfig = Some(path),
        "Kubeconfig of the server [default: KUBECONFIG, or that of ./kstore-data]",
    ),
    Flag::choice(
        ("output", "FORMAT"),
        words::<AnswerOutput>,
        |o: &mut WhatIfArgs, word| put(&mut o.output, chosen(word)),
        "Output format",
    )
    .default("text")
    .shaped(|arg| arg.short('o')),
];

/// Arguments of `what-if`.
#[derive(Debug, Default)]
pub struct WhatIfArgs {
    /// Files and folders with objects.
    pub files: Vec<PathBuf>,
    /// Nodes that are gone.
    pub without: Vec<String>,
    /// Nodes that are drained.
    pub drain: Vec<String>,
    /// Numbers of more nodes, each with the node that they are like.
    pub with_nodes: Vec<String>,
    /// Workloads with their new numbers of replicas.
    pub scale: Vec<String>,
    /// Objects that are deleted.
    pub delete: Vec<String>,
    /// The revision of the state; `None`: now.
    pub at: Option<String>,
    /// What gives exit code 1; everything if empty.
    pub fail_on: Vec<FailOn>,
    /// Namespace of objects that name none; `None`: the kubeconfig's.
    pub namespace: Option<String>,
    /// Kubeconfig of the server.
    pub kubeconfig: Option<PathBuf>,
    /// Output format.
    pub output: AnswerOutput,
}

/// A consequence that fails the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailOn {
    /// Pods without a node that had one or are new.
    Pending,
    /// Pods that were evicted and are replaced by their controllers.
    Evicted,
    /// Pods that are gone and that nothing replaces.
    Lost,
}

impl Choice for FailOn {
    const WORDS: &'static [(&'static str, Self, &'static str)] = &[
        ("pending", Self::Pending, "Pods that are pending and were not"),
        ("evicted", Self::Evicted, "Pods that are evicted"),
        ("lost", Self::Lost, "Pods that are gone and that nothing replaces"),
    ];
}
