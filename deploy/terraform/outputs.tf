output "engine" {
  description = "The table [engine] of a build file."
  value = join("\n", concat(
    ["[engine]", "name = \"dataflow\""],
    [for key, value in local.engine : "${key} = ${jsonencode(value)}"],
  ))
}

output "output" {
  description = "Where outputs go: build.output."
  value       = [for folder in var.output_folders : "gs://${google_storage_bucket.output.name}/${folder}"]
}

output "registry" {
  description = "Where the image goes."
  value       = "${var.region}-docker.pkg.dev/${var.project}/${google_artifact_registry_repository.tokcore.repository_id}"
}
