terraform {
  required_providers {
    lab = { source = "example/lab" }
  }
}

ephemeral "lab_token" "t" {
  for_each = toset(["a", "b"])
  value    = each.key
}

resource "lab_thing" "a" {
  name          = "a"
  token         = ephemeral.lab_token.t["a"].token
  token_version = 1
}
