variable "project" {
  description = "Id of the Google Cloud project. It must exist, with billing."
  type        = string
}

variable "region" {
  description = "Region of buckets, workers, registry and driver, so that no byte leaves it."
  type        = string
  default     = "us-central1"
}

variable "input_buckets" {
  description = "Names of the buckets that hold the corpus. They must exist; workers and driver may read their objects."
  type        = list(string)
}

variable "output_folders" {
  description = "Folders of the output bucket that hold outputs, as build.output names them below it: leftovers in them go."
  type        = list(string)
  default     = ["out"]

  # A rule without a prefix would delete whatever is old in the bucket.
  validation {
    condition     = length(var.output_folders) > 0 && alltrue([for folder in var.output_folders : folder != ""])
    error_message = "Name at least one folder, and none that is empty."
  }
}

variable "leftovers_days" {
  description = "Age at which what killed builds left behind is deleted. Longer than any build takes, kills included."
  type        = number
  default     = 30

  validation {
    condition     = var.leftovers_days >= 1
    error_message = "Builds that still run have files there: take a day at least."
  }
}

variable "image" {
  description = "The image of tokcore, by digest or tag, as REGION-docker.pkg.dev/PROJECT/tokcore/tokcore@sha256:..."
  type        = string
  default     = ""
}

variable "build_file" {
  description = "URL of the build file of the driver's job: gs://BUCKET/build.toml. Empty: no job is made."
  type        = string
  default     = ""
}

variable "with_nat" {
  description = "Whether workers reach the internet, without addresses of their own: for inputs in other clouds."
  type        = bool
  default     = false
}

variable "alert_emails" {
  description = "Who is told when a job fails."
  type        = list(string)
  default     = []
}
