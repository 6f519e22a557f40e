terraform {
  required_providers {
    lab = {
      source                = "example/lab"
      configuration_aliases = [lab.x]
    }
  }
}

resource "lab_thing" "c" {
  provider = lab.x
  name     = "c"
}
