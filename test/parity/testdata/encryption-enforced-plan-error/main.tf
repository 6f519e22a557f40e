terraform {
  encryption {
    method "unencrypted" "u" {}
    plan {
      method   = method.unencrypted.u
      enforced = true
    }
  }
}

resource "terraform_data" "a" {
  input = "x"
}

output "a" {
  value = terraform_data.a.output
}
