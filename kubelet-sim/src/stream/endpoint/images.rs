//! The images of the endpoint: names that clients have pulled, and those of the node. No registry is contacted.

use super::Endpoint;
use crate::behavior::PullError;
use crate::image::{self, Cache};
use crate::known_image;
use crate::limits::{ENDPOINT_IMAGES, IMAGE_NAME_BYTES};
use crate::stream::endpoint::table::nanos;
use kstore_proto::cri::v1::image_service_server::ImageService;
use kstore_proto::cri::v1::{
    FilesystemIdentifier, FilesystemUsage, Image, ImageFsInfoRequest, ImageFsInfoResponse, ImageSpec,
    ImageStatusRequest, ImageStatusResponse, Int64Value, ListImagesRequest, ListImagesResponse,
    PullImageRequest, PullImageResponse, RemoveImageRequest, RemoveImageResponse, UInt64Value,
};
use std::collections::BTreeMap;
use tonic::{Request, Response, Status};

/// What kubelets ask the size of, which must be a folder of the machine.
const FILESYSTEM: &str = "/";

/// The id of an image, by its name.
pub(super) fn id_of(name: &str) -> String {
    format!("sha256:{}", image::hex64(&["image", &image::full_name(name)]))
}

/// The images that are there, by their full names.
#[derive(Default)]
pub(super) struct Images(Cache);

impl Images {
    /// The full name of the image that this reference means: its id or the beginning of it, its name, or its name by digest.
    pub(super) fn find(&self, reference: &str) -> Option<String> {
        let full = image::full_name(reference);
        if self.0.has(reference) {
            return Some(full);
        }
        let id = reference.strip_prefix("sha256:").unwrap_or(reference);
        let is_id = id.len() >= 8 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        let all = self.0.by_size();
        let named = all.iter().map(|(name, _)| *name);
        let mut found = named.filter(|name| {
            (is_id && id_of(name)["sha256:".len()..].starts_with(id)) || image::digest_reference(name) == full
        });
        found.next().map(str::to_owned)
    }

    fn all(&self) -> Vec<(String, u64)> {
        self.0.by_size().into_iter().map(|(name, size)| (name.to_owned(), size)).collect()
    }
}

/// An image as clients see it.
fn shown(name: &str, size: u64) -> Image {
    let user = known_image::user(name, None, None, &[], false).user;
    let tags = if name.contains('@') { Vec::new() } else { vec![name.to_owned()] };
    Image {
        id: id_of(name),
        repo_tags: tags,
        repo_digests: vec![image::digest_reference(name)],
        size,
        // Without a user it is root.
        uid: (user != 0).then(|| Int64Value { value: user.into() }),
        username: String::new(),
        spec: Some(ImageSpec { image: name.to_owned(), ..ImageSpec::default() }),
    }
}

/// The reference of a request.
fn reference(spec: Option<ImageSpec>) -> Result<String, Status> {
    let reference = spec.unwrap_or_default().image;
    if reference.is_empty() || reference.len() > IMAGE_NAME_BYTES {
        let text = format!("an image has a name of 1 to {IMAGE_NAME_BYTES} bytes");
        return Err(Status::invalid_argument(text));
    }
    Ok(reference)
}

impl Endpoint {
    /// The images of the endpoint and those that the node has already, by full name.
    async fn all_images(&self) -> BTreeMap<String, u64> {
        let mut all: BTreeMap<String, u64> = self.images().all().into_iter().collect();
        all.extend(self.node_contents().await.images);
        all
    }

    /// The full name of an image that is there.
    pub(super) async fn image_named(&self, reference: &str) -> Option<String> {
        let own = self.images().find(reference);
        if own.is_some() {
            return own;
        }
        let mut of_node = Images::default();
        for (name, size) in self.node_contents().await.images {
            of_node.0.add_sized(name, size);
        }
        of_node.find(reference)
    }

    /// Whether an image exists in the simulated registries.
    fn can_be_pulled(&self, reference: &str) -> bool {
        image::missing_registry(reference).is_none()
            && !self.missing_images.iter().any(|pattern| image::matches(pattern, reference))
    }
}

#[tonic::async_trait]
impl ImageService for Endpoint {
    async fn list_images(
        &self,
        request: Request<ListImagesRequest>,
    ) -> Result<Response<ListImagesResponse>, Status> {
        let wanted = request.into_inner().filter.and_then(|filter| filter.image).unwrap_or_default().image;
        let wanted = match wanted.as_str() {
            "" => None,
            // A filter for an image that is not there matches nothing.
            name => Some(self.image_named(name).await.unwrap_or_default()),
        };
        let all = self.all_images().await;
        let images = all.iter().filter(|(name, _)| wanted.as_ref().is_none_or(|wanted| wanted == *name));
        let images = images.map(|(name, size)| shown(name, *size)).collect();
        Ok(Response::new(ListImagesResponse { images }))
    }

    async fn image_status(
        &self,
        request: Request<ImageStatusRequest>,
    ) -> Result<Response<ImageStatusResponse>, Status> {
        let reference = reference(request.into_inner().image)?;
        let name = self.image_named(&reference).await;
        let image = name.map(|name| shown(&name, image::size(&name)));
        Ok(Response::new(ImageStatusResponse { image }))
    }

    async fn pull_image(
        &self,
        request: Request<PullImageRequest>,
    ) -> Result<Response<PullImageResponse>, Status> {
        let reference = reference(request.into_inner().image)?;
        if !self.can_be_pulled(&reference) {
            let text = image::error_text(&reference, PullError::NotFound);
            let text = text.split_once(" desc = ").map_or(text.as_str(), |(_, text)| text).to_owned();
            return Err(Status::not_found(text));
        }
        let mut images = self.images();
        if images.find(&reference).is_none() && images.0.by_size().len() >= ENDPOINT_IMAGES {
            let text = format!("the endpoint has {ENDPOINT_IMAGES} images: remove some");
            return Err(Status::resource_exhausted(text));
        }
        images.0.add(&reference);
        Ok(Response::new(PullImageResponse { image_ref: id_of(&reference) }))
    }

    async fn remove_image(
        &self,
        request: Request<RemoveImageRequest>,
    ) -> Result<Response<RemoveImageResponse>, Status> {
        let reference = reference(request.into_inner().image)?;
        let mut images = self.images();
        if let Some(name) = images.find(&reference) {
            images.0.remove(&name);
        }
        Ok(Response::new(RemoveImageResponse {}))
    }

    async fn image_fs_info(
        &self,
        _: Request<ImageFsInfoRequest>,
    ) -> Result<Response<ImageFsInfoResponse>, Status> {
        let all = self.all_images().await;
        let usage = FilesystemUsage {
            timestamp: nanos(self.streams.clock.now()),
            fs_id: Some(FilesystemIdentifier { mountpoint: FILESYSTEM.to_owned() }),
            used_bytes: Some(UInt64Value { value: all.values().sum() }),
            inodes_used: Some(UInt64Value { value: all.len() as u64 }),
        };
        let of_containers = FilesystemUsage { used_bytes: Some(UInt64Value { value: 0 }), ..usage.clone() };
        Ok(Response::new(ImageFsInfoResponse {
            image_filesystems: vec![usage],
            container_filesystems: vec![of_containers],
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_found_by_its_name_id_and_digest() {
        let mut images = Images::default();
        images.0.add("nginx:1.27");
        let name = "docker.io/library/nginx:1.27";
        let id = id_of(name);
        for reference in [
            "nginx:1.27",
            name,
            id.as_str(),
            &id["sha256:".len()..],
            &id[..20],
            &image::digest_reference(name),
        ] {
            assert_eq!(images.find(reference).as_deref(), Some(name), "{reference}");
        }
        for other in ["nginx", "nginx:1.28", "sha256:", "sha256:00000000", "e"] {
            assert_eq!(images.find(other), None, "{other}");
        }
    }

    #[test]
    fn the_user_of_an_image_is_shown_unless_it_is_root() {
        assert_eq!(shown("docker.io/library/nonroot:1", 1).uid, Some(Int64Value { value: 1234 }));
        assert_eq!(shown("docker.io/library/nginx:1", 1).uid, None);
    }
}
