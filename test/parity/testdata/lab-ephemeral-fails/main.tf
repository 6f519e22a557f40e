terraform {
  required_providers {
    lab = { source = "example/lab" }
  }
}

ephemeral "lab_token" "t" {
  value = "fail-open"
}

resource "lab_thing" "a" {
  name  = "a"
  token = ephemeral.lab_token.t.token
}
