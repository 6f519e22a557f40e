terraform {
  required_providers {
    lab = { source = "example/lab" }
  }
}

variable "regions" {
  default = ["eu", "us"]
}

provider "lab" {
  alias    = "by_region"
  for_each = toset(var.regions)
  region   = each.key
}

resource "lab_thing" "a" {
  for_each = toset(var.regions)
  provider = lab.by_region[each.key]
  name     = "in-${each.key}"
}

module "m" {
  source   = "./m"
  for_each = toset(var.regions)
  providers = {
    lab = lab.by_region[each.key]
  }
}
