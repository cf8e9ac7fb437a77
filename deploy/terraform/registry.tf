resource "google_artifact_registry_repository" "tokcore" {
  location      = var.region
  repository_id = "tokcore"
  format        = "DOCKER"
  description   = "The image of tokcore"

  # A tag names the same bytes for ever, for workers that start later, too.
  docker_config {
    immutable_tags = true
  }

  depends_on = [google_project_service.needed]
}
