variable "secret" {
  type      = string
  ephemeral = true
  default   = "hidden"
}

locals {
  derived = "${var.secret}-more"
}

resource "terraform_data" "a" {
  input = "public"

  provisioner "local-exec" {
    command     = "printf '%s' \"$SECRET\" | wc -c | tr -d ' '"
    environment = { SECRET = local.derived }
  }
}

module "m" {
  source = "./m"
  in     = var.secret
}

output "is_ephemeral" {
  value = ephemeralasnull(module.m.out) == null
}
