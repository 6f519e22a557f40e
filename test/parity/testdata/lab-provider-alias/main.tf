terraform {
  required_providers {
    lab = { source = "example/lab" }
  }
}

provider "lab" {
  region = "default"
}

provider "lab" {
  alias    = "other"
  region   = "other"
  password = "secret"
}

resource "lab_thing" "a" {
  name = "a"
}

resource "lab_thing" "b" {
  provider = lab.other
  name     = "b"
}

module "m" {
  source = "./m"
  providers = {
    lab.x = lab.other
  }
}
