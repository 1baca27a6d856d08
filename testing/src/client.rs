//! API clients in this process.

use crate::faults::FaultInjector;
use crate::schedule::Schedule;
use kstore_apiserver::InProcess;
use kstore_client::Client;

/// An in-process API client, whose watches share the memory of the watch cache.
pub(crate) fn client(
    service: &InProcess,
    (injector, schedule): (&FaultInjector, &Schedule),
    user: &str,
    agent: &str,
) -> Client {
    let (feed, injector, user) = (service.clone(), injector.clone(), user.to_owned());
    let transport = match schedule.is_fifo() {
        true => Client::over(service.clone(), agent),
        false => Client::over(schedule.service(service.clone()), agent),
    };
    let schedule = schedule.clone();
    transport.with_feed(move |request| {
        let (injector, user, headers) =
            (injector.clone(), user.clone(), request.metadata().clone().into_headers());
        let (opening, schedule) = (feed.watch(request), schedule.clone());
        async move { Ok(schedule.stream(injector.watch(&user, headers, opening).await?)) }
    })
}
