output "a" {
  value = provider::local::direxists(path.module)
}

terraform {
  required_providers {
    local = { source = "hashicorp/local" }
  }
}
