terraform {
  required_providers {
    lab = { source = "example/lab" }
  }
}

resource "terraform_data" "region" {
  input = "late"
}

provider "lab" {
  region = terraform_data.region.output
}

resource "lab_thing" "a" {
  name = "a"
}
