terraform {
  required_providers {
    lab = { source = "example/lab" }
  }
}

ephemeral "lab_token" "t" {
  value = "longer"
}

resource "lab_thing" "a" {
  name          = "a"
  token         = ephemeral.lab_token.t.token
  token_version = 2
}
