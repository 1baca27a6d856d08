//! The user that runs a container's commands.

use crate::known_image;
use k8s_openapi::api::core::v1::{Container, PodSpec};
use kstore_container_sim::User;

/// The user of a container: that of its own security context, of the pod's, or of its image.
pub fn of(spec: &PodSpec, container: &Container) -> User {
    let (pod, own) = (spec.security_context.as_ref(), container.security_context.as_ref());
    let user = own.and_then(|own| own.run_as_user).or(pod.and_then(|pod| pod.run_as_user));
    let group = own.and_then(|own| own.run_as_group).or(pod.and_then(|pod| pod.run_as_group));
    let more = pod.and_then(|pod| pod.supplemental_groups.as_ref()).into_iter().flatten().copied();
    let more: Vec<u32> = more.chain(pod.and_then(|pod| pod.fs_group)).filter_map(number).collect();
    let merges = pod.and_then(|pod| pod.supplemental_groups_policy.as_deref()) != Some("Strict");
    let image = container.image.as_deref().unwrap_or_default();
    known_image::user(image, user.and_then(number), group.and_then(number), &more, merges)
}

/// The user that all containers of a pod want, if it is one: tokens in volumes belong to it.
pub fn of_all(spec: &PodSpec) -> Option<u32> {
    let general = spec.security_context.as_ref().and_then(|context| context.run_as_user);
    let all = spec.init_containers.iter().flatten().chain(&spec.containers);
    let mut users = all.map(|container| {
        container.security_context.as_ref().and_then(|context| context.run_as_user).or(general)
    });
    let first = users.next()??;
    users.all(|user| user == Some(first)).then(|| number(first)).flatten()
}

/// The group of a pod's volumes.
pub fn volume_group(spec: &PodSpec) -> Option<u32> {
    spec.security_context.as_ref()?.fs_group.and_then(number)
}

fn number(number: i64) -> Option<u32> {
    u32::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_overrides_the_user_of_its_pod() {
        let of = |pod: &str, own: &str| {
            let text = format!(
                "{{securityContext: {{{pod}}}, containers: [{{name: c, securityContext: {{{own}}}}}]}}"
            );
            let spec: PodSpec = serde_yaml_ng::from_str(&text).unwrap();
            (super::of(&spec, &spec.containers[0]), of_all(&spec))
        };
        let user = |user: u32, group: u32, more: &[u32]| User { user, group, more_groups: more.to_vec() };
        assert_eq!(of("", ""), (user(0, 0, &[]), None));
        assert_eq!(
            of("runAsUser: 5, fsGroup: 9, supplementalGroups: [7, 9]", ""),
            (user(5, 0, &[7, 9]), Some(5))
        );
        assert_eq!(of("runAsUser: 5, runAsGroup: 6", "runAsUser: 8"), (user(8, 6, &[]), Some(8)));
    }
}
