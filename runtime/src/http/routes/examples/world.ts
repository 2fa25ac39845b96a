/**
 * What all examples are about: the tenant `acme`, whose connection `shop` feeds the product `crm.customers`. The values
 * were answered by a runtime; ids, times and addresses are made up.
 */
export const TENANT = 'acme'
export const CONNECTION_ID = 'con_b51d06282929e4d6e71f9df7'
export const PRODUCT_ID = 'prd_d05e62c45b53ea4550987051'
export const PRODUCT = 'crm.customers'
export const RUN_ID = 'run_c6c9c81c47156cb120ace05d'
export const MATERIALIZATION_ID = 'mat_0f8e1b269a873525176a2acd'
export const DIGEST = 'b0db50887414bf8a2e3e8d4c31c803c9ab88a8bd180ea1cbb6c3449faed83b3b'
export const SNAPSHOT_ID = '7533507713999006'
export const ISSUER = 'https://login.example.com'

/** A time of the day on which it all happened: `at('08:15:00')`. */
export const at = (time: string) => `2026-03-02T${time}.000Z`

export const page = (...data: readonly unknown[]) => ({ data, next_cursor: null })

export const MANIFESTS = {
  product: `apiVersion: svc/v1
kind: Product
name: customers
namespace: crm
archetype: source_aligned
description: Customers of the shop
owner: { team: crm, email: crm@example.com }
slo: { freshness: 24h }
`,
  inputs: `apiVersion: svc/v1
kind: Inputs
inputs:
  - { name: source, connection: shop, table: public.customers }
`,
  output: `apiVersion: svc/v1
kind: Output
format: iceberg
schema:
  - { name: id, type: integer, role: identity, nullable: false }
  - { name: email, type: string, classification: pii.identifier }
  - { name: city, type: string }
`,
  quality: `apiVersion: svc/v1
kind: Quality
checks:
  - { name: city_known, severity: warn, accepted_values: { column: city, values: [Berlin, Lyon] } }
`,
  serving: `apiVersion: svc/v1
kind: Serving
endpoints:
  - { type: lookup, config: { index_columns: [id, city] } }
  - { type: realtime, config: { key_template: "{id}", ttl: 24h } }
  - { type: analytics }
`,
  compute: `apiVersion: svc/v1
kind: Compute
engine: auto
trigger: on_ingestion
`,
}
