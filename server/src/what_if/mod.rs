//! `kstore-server what-if`: what would follow from a change of a cluster. The command reads the cluster with the rights of its kubeconfig,
//! and makes the change on a copy in its own memory, so the server does no work for it and cannot be changed by it.

mod answer;
mod fork;
mod pods;
mod question;
mod read;

use crate::args::{AnswerOutput, WhatIfArgs};
use crate::client_command::{Connection, print};
use crate::revision::resolve;
use crate::runtime;
use crate::simulation::{self, Problems};
use answer::{Answer, Circumstances, StateView};
use anyhow::{Context as _, anyhow};
use fork::Fork;
use kstore_api::meta;
use pods::Workload;
use question::Question;
use read::{ClusterCopy, read};
use std::collections::BTreeSet;
use std::process::ExitCode;

/// Bytes of the stack of the copy's thread: the pipeline's futures are boxed, and unoptimised frames of expressions are large.
const STACK: usize = 8 << 20;

/// Carries out `what-if`.
pub(crate) fn what_if(args: &WhatIfArgs) -> anyhow::Result<ExitCode> {
    let sourced = simulation::read(&args.files)?;
    let objects: Vec<_> = sourced.into_iter().map(|(_, object)| object).collect();
    let (copy, question) = runtime::block_on(async {
        let Connection { client, namespace } =
            Connection::open(args.kubeconfig.clone(), args.namespace.as_deref(), "kstore-what-if").await?;
        let question = Question::read(args, objects, &namespace).map_err(Problems)?;
        let at = match &args.at {
            Some(text) => Some(resolve(&client, text, None).await?),
            None => None,
        };
        anyhow::Ok((read(&client, at).await?, question))
    })?;
    let answer = on_thread(copy, question)?;
    print(&match args.output {
        AnswerOutput::Text => answer.text(),
        AnswerOutput::Json => serde_json::to_string_pretty(&answer.data())? + "\n",
        AnswerOutput::Yaml => serde_yaml_ng::to_string(&answer.data())?,
    })?;
    Ok(if answer.fails(&args.fail_on) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Answers on a thread of its own, whose time is virtual.
fn on_thread(copy: ClusterCopy, question: Question) -> anyhow::Result<Answer> {
    let thread = std::thread::Builder::new().name("what-if".to_owned()).stack_size(STACK);
    let thread = thread.spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.context("cannot start the runtime")?.block_on(answer(&copy, &question))
    });
    thread.context("cannot start a thread")?.join().map_err(|_| anyhow!("the copy panicked"))?
}

/// Makes the changes on a copy, and compares the states before and after them.
async fn answer(copy: &ClusterCopy, question: &Question) -> anyhow::Result<Answer> {
    let fork = Fork::start(copy, question).await?;
    let before = fork.state().await?;
    let asked = fork.ask(question).await;
    fork.end().await;
    let after = asked?;
    let circumstances = Circumstances {
        revision: copy.revision,
        asked: asked_workloads(question),
        left: question.without.iter().chain(&question.drain).map(|node| format!("node/{node}")).collect(),
        deleted: question.delete.iter().map(named_workload).collect(),
        blocked: after.blocked,
        unsettled: after.unsettled,
        unread: copy.unread.clone(),
        webhooks: copy.webhooks,
    };
    let view = |pods, nodes| StateView { pods, nodes };
    Ok(Answer::of(view(&before.pods, &before.nodes), view(&after.pods, &after.nodes), circumstances))
}

/// The workloads that the question makes or changes.
fn asked_workloads(question: &Question) -> BTreeSet<Workload> {
    let objects = question.objects.iter().map(|object| Workload {
        namespace: meta::namespace(&object.value).to_owned(),
        kind: object.kind().to_owned(),
        name: object.name().to_owned(),
    });
    objects.chain(question.scale.iter().map(|(object, _)| named_workload(object))).collect()
}

fn named_workload(object: &question::Named) -> Workload {
    Workload {
        namespace: object.namespace.clone(),
        kind: object.kind_name.to_owned(),
        name: object.name.clone(),
    }
}

#[cfg(test)]
mod tests;
