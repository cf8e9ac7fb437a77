resource "google_compute_network" "workers" {
  name                    = "tokcore"
  auto_create_subnetworks = false

  depends_on = [google_project_service.needed]
}

# Workers have no public addresses; buckets, registry and Dataflow are reached through Google's own network.
resource "google_compute_subnetwork" "workers" {
  name                     = "tokcore-workers"
  network                  = google_compute_network.workers.id
  region                   = var.region
  ip_cidr_range            = "10.128.0.0/20"
  private_ip_google_access = true
}

# Workers of a job talk to each other when they shuffle. Nobody else gets in.
resource "google_compute_firewall" "shuffle" {
  name        = "tokcore-shuffle"
  network     = google_compute_network.workers.id
  direction   = "INGRESS"
  source_tags = ["dataflow"]
  target_tags = ["dataflow"]

  allow {
    protocol = "tcp"
    ports    = ["12345-12346"]
  }
}

resource "google_compute_router" "nat" {
  count = var.with_nat ? 1 : 0

  name    = "tokcore"
  network = google_compute_network.workers.id
  region  = var.region
}

resource "google_compute_router_nat" "nat" {
  count = var.with_nat ? 1 : 0

  name                               = "tokcore"
  router                             = google_compute_router.nat[0].name
  region                             = var.region
  nat_ip_allocate_option             = "AUTO_ONLY"
  source_subnetwork_ip_ranges_to_nat = "ALL_SUBNETWORKS_ALL_IP_RANGES"
}
