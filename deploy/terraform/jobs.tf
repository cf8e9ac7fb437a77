# A whole build, where no laptop must stay awake: gcloud run jobs execute tokcore-build --region REGION
resource "google_cloud_run_v2_job" "build" {
  count = var.build_file == "" ? 0 : 1

  name                = "tokcore-build"
  location            = var.region
  deletion_protection = false

  template {
    task_count  = 1
    parallelism = 1

    template {
      service_account = google_service_account.driver.email
      timeout         = "86400s"
      # A task that is lost finds the job of Dataflow that it has started, and goes on with it.
      max_retries = 10

      containers {
        image   = var.image
        command = ["tokcore"]
        args    = concat(["build", var.build_file, "--detach", "--engine", "dataflow"], local.settings)

        resources {
          limits = {
            cpu    = "2"
            memory = "8Gi"
          }
        }
      }
    }
  }

  lifecycle {
    precondition {
      condition     = var.image != ""
      error_message = "The driver's job needs an image: set the variable image."
    }
  }

  depends_on = [google_project_service.needed]
}

locals {
  engine = {
    project         = var.project
    region          = var.region
    staging         = "gs://${google_storage_bucket.staging.name}/staging"
    image           = var.image
    subnetwork      = "regions/${var.region}/subnetworks/${google_compute_subnetwork.workers.name}"
    service_account = google_service_account.worker.email
  }
  settings = flatten([for key, value in local.engine : ["--set", "engine.${key}=${value}"]])
}
