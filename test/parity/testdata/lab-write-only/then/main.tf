terraform {
  required_providers {
    lab = { source = "example/lab" }
  }
}

variable "token" {
  ephemeral = true
  default   = "1234"
}

resource "lab_thing" "a" {
  name          = "a"
  token         = var.token
  token_version = 2
  secret        = "other"
}
