# Outputs. Manifests are created once and never overwritten, so no versions are kept.
resource "google_storage_bucket" "output" {
  name                        = "${var.project}-tokcore-output"
  location                    = var.region
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  force_destroy               = false

  # Uploads that a kill left unfinished take space, and no listing shows them.
  lifecycle_rule {
    action {
      type = "AbortIncompleteMultipartUpload"
    }
    condition {
      age = 7
    }
  }

  # A finished build removes its working files; these are of killed ones. `tokcore gc` removes them earlier.
  lifecycle_rule {
    action {
      type = "Delete"
    }
    condition {
      age            = var.leftovers_days
      matches_prefix = [for folder in var.output_folders : "${folder}/_attempts/"]
    }
  }

  depends_on = [google_project_service.needed]
}

# What Dataflow stages: graphs, and names of files. Nothing in it is needed once a job has ended.
resource "google_storage_bucket" "staging" {
  name                        = "${var.project}-tokcore-staging"
  location                    = var.region
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  force_destroy               = true

  soft_delete_policy {
    retention_duration_seconds = 0
  }

  lifecycle_rule {
    action {
      type = "AbortIncompleteMultipartUpload"
    }
    condition {
      age = 1
    }
  }

  lifecycle_rule {
    action {
      type = "Delete"
    }
    condition {
      age = 14
    }
  }

  depends_on = [google_project_service.needed]
}
