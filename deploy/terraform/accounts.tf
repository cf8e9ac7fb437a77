# Who the workers are.
resource "google_service_account" "worker" {
  account_id   = "tokcore-worker"
  display_name = "Workers of tokcore on Dataflow"

  depends_on = [google_project_service.needed]
}

# Who plans, submits, checks and commits.
resource "google_service_account" "driver" {
  account_id   = "tokcore-driver"
  display_name = "Driver of tokcore's builds"

  depends_on = [google_project_service.needed]
}

locals {
  both = {
    worker = google_service_account.worker.member
    driver = google_service_account.driver.member
  }
  readers = { for pair in setproduct(keys(local.both), var.input_buckets) : join(" ", pair) => pair }
  writers = {
    for pair in setproduct(keys(local.both), ["output", "staging"]) : join(" ", pair) => pair
  }
  written = {
    output  = google_storage_bucket.output.name
    staging = google_storage_bucket.staging.name
  }
}

resource "google_project_iam_member" "worker" {
  project = var.project
  role    = "roles/dataflow.worker"
  member  = google_service_account.worker.member
}

resource "google_project_iam_member" "driver" {
  project = var.project
  role    = "roles/dataflow.developer"
  member  = google_service_account.driver.member
}

# Dataflow starts workers with their account only for those who may act as it.
resource "google_service_account_iam_member" "driver" {
  service_account_id = google_service_account.worker.name
  role               = "roles/iam.serviceAccountUser"
  member             = google_service_account.driver.member
}

resource "google_storage_bucket_iam_member" "reads" {
  for_each = local.readers

  bucket = each.value[1]
  role   = "roles/storage.objectViewer"
  member = local.both[each.value[0]]
}

# Create, read, list and delete objects.
resource "google_storage_bucket_iam_member" "writes" {
  for_each = local.writers

  bucket = local.written[each.value[1]]
  role   = "roles/storage.objectUser"
  member = local.both[each.value[0]]
}

# Beam looks at the bucket's settings before it stages a graph, which no role for objects allows.
resource "google_storage_bucket_iam_member" "stages" {
  bucket = google_storage_bucket.staging.name
  role   = "roles/storage.legacyBucketReader"
  member = google_service_account.driver.member
}

resource "google_artifact_registry_repository_iam_member" "pulls" {
  for_each = local.both

  location   = google_artifact_registry_repository.tokcore.location
  repository = google_artifact_registry_repository.tokcore.name
  role       = "roles/artifactregistry.reader"
  member     = each.value
}
