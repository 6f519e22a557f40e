locals {
  dir = "child"
}

module "m" {
  source = "./${local.dir}"
}

output "x" {
  value = module.m.x
}
