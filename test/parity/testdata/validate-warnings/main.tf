variable "old" {
  default    = 1
  deprecated = "Gone soon."
}

module "m" {
  source = "./m"
  x      = 1
}

terraform {
  required_version = ">= 1.0"
  experiments      = []
}

output "x" {
  value = module.m.x
}
