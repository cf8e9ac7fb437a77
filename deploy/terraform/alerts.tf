resource "google_monitoring_notification_channel" "email" {
  for_each = toset(var.alert_emails)

  display_name = each.key
  type         = "email"
  labels = {
    email_address = each.key
  }

  depends_on = [google_project_service.needed]
}

resource "google_monitoring_alert_policy" "job_failed" {
  display_name          = "tokcore: a job on Dataflow failed"
  combiner              = "OR"
  notification_channels = [for channel in google_monitoring_notification_channel.email : channel.id]

  conditions {
    display_name = "a job whose name begins with tokcore failed"

    condition_threshold {
      filter = join(" AND ", [
        "resource.type = \"dataflow_job\"",
        "metric.type = \"dataflow.googleapis.com/job/is_failed\"",
        "resource.labels.job_name = starts_with(\"tokcore-\")",
      ])
      comparison      = "COMPARISON_GT"
      threshold_value = 0
      duration        = "0s"

      aggregations {
        alignment_period   = "60s"
        per_series_aligner = "ALIGN_MAX"
      }
    }
  }

  documentation {
    content = "Run the same `tokcore build` again: it says what failed, and repeats only work that was not finished."
  }

  depends_on = [google_project_service.needed]
}

resource "google_monitoring_alert_policy" "driver_failed" {
  count = var.build_file == "" ? 0 : 1

  display_name          = "tokcore: the driver's job failed"
  combiner              = "OR"
  notification_channels = [for channel in google_monitoring_notification_channel.email : channel.id]

  conditions {
    display_name = "an execution of tokcore-build failed"

    condition_threshold {
      filter = join(" AND ", [
        "resource.type = \"cloud_run_job\"",
        "resource.labels.job_name = \"tokcore-build\"",
        "metric.type = \"run.googleapis.com/job/completed_execution_count\"",
        "metric.labels.result = \"failed\"",
      ])
      comparison      = "COMPARISON_GT"
      threshold_value = 0
      duration        = "0s"

      aggregations {
        alignment_period   = "300s"
        per_series_aligner = "ALIGN_DELTA"
      }
    }
  }

  documentation {
    content = "Its log has the error in one line. Execute the job again when the cause is gone."
  }

  depends_on = [google_project_service.needed]
}
