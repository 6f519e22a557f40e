locals {
  ids = { a = "id-a", b = "id-b" }
}

import {
  for_each = local.ids
  to       = terraform_data.a[each.key]
  id       = each.value
}

resource "terraform_data" "a" {
  for_each = local.ids
}
