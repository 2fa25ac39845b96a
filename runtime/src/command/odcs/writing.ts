/** The contract that a product keeps, of its manifests; and what of them no contract says. */
import type { LogicalType } from '@sluice/sdk'
import type { InputsFile } from '../../manifest/files/inputs.ts'
import type { ColumnFields, OutputFile } from '../../manifest/files/output.ts'
import type { ProductFile } from '../../manifest/files/product.ts'
import type { QualityFile } from '../../manifest/files/quality.ts'
import type { ServingFile } from '../../manifest/files/serving.ts'
import {
  API_VERSION,
  type ContractProperty,
  type ContractRule,
  type CustomProperty,
  OWN,
  OWN_SERVER,
} from './contract.ts'
import { contractType } from './types.ts'
import { writtenRules } from './written-rules.ts'

/** The files as they were parsed: valid together. */
export interface ManifestValues {
  readonly product: ProductFile
  readonly inputs: InputsFile
  readonly output: OutputFile
  readonly quality: QualityFile
  readonly serving: ServingFile
}

export interface ContractFacts {
  readonly version: string
  readonly isInService: boolean
  /** Where it is read; null: that is not known. */
  readonly url: string | null
}

export interface WrittenContract {
  readonly contract: Readonly<Record<string, unknown>>
  /** What of the manifests it does not say, each by its place. */
  readonly lost: readonly string[]
}

export function contractOf(manifests: ManifestValues, facts: ContractFacts): WrittenContract {
  const { product, inputs, output, quality, serving } = manifests
  const full = `${product.namespace}.${product.name}`
  const rules = writtenRules(
    quality,
    inputs.inputs.map(({ name }) => name),
  )
  const own = [
    { property: OWN.archetype, value: product.archetype },
    { property: OWN.classification, value: product.classification ?? 'internal' },
    { property: OWN.endpoints, value: serving.endpoints ?? [] },
  ]
  const contract = {
    apiVersion: API_VERSION,
    kind: 'DataContract',
    id: full,
    name: product.name,
    version: facts.version,
    status: facts.isInService ? 'active' : 'draft',
    domain: product.namespace,
    dataProduct: full,
    ...(product.description ? { description: { purpose: product.description } } : {}),
    ...(product.tags?.length ? { tags: product.tags } : {}),
    ...(facts.url === null ? {} : { servers: [{ server: OWN_SERVER, type: 'api', location: facts.url }] }),
    schema: [schemaOf(product.name, output, rules)],
    ...teamOf(product.owner),
    ...slaOf(product.slo),
    customProperties: own,
  }
  return { contract, lost: [...lostOf(manifests), ...rules.lost] }
}

function schemaOf(name: string, output: OutputFile, { ofSchema, ofColumn }: ReturnType<typeof writtenRules>) {
  const key = output.schema.filter(({ role }) => role === 'identity').map((column) => column.name)
  return {
    name,
    logicalType: 'object',
    physicalType: 'table',
    properties: output.schema.map((column) =>
      propertyOf(column, key.indexOf(column.name), output, ofColumn.get(column.name) ?? []),
    ),
    ...(ofSchema.length === 0 ? {} : { quality: ofSchema }),
  }
}

function propertyOf(
  column: ColumnFields,
  keyIndex: number,
  { partitioning = [] }: OutputFile,
  quality: readonly ContractRule[],
): ContractProperty {
  const partition = partitioning.findIndex((one) => one.column === column.name)
  const transform = partitioning[partition]?.transform
  const isKey = keyIndex >= 0
  const own: readonly CustomProperty[] = [
    ...(isKey ? [] : [{ property: OWN.role, value: column.role ?? 'attribute' }]),
    ...(transform === undefined ? [] : [{ property: OWN.partition, value: transform }]),
  ]
  return {
    name: column.name,
    ...contractType(column.type.replaceAll(/\s/g, '') as LogicalType),
    ...(column.description ? { description: column.description } : {}),
    ...(isKey ? { primaryKey: true, primaryKeyPosition: keyIndex + 1 } : {}),
    required: !(column.nullable ?? !isKey),
    classification: column.classification ?? 'public',
    ...(partition < 0 ? {} : { partitioned: true, partitionKeyPosition: partition + 1 }),
    ...(quality.length === 0 ? {} : { quality }),
    ...(own.length === 0 ? {} : { customProperties: own }),
  }
}

function teamOf(owner: ProductFile['owner']) {
  if (owner?.team === undefined && owner?.email === undefined) return {}
  const members = owner.email === undefined ? {} : { members: [{ username: owner.email, role: 'owner' }] }
  return { team: { ...(owner.team === undefined ? {} : { name: owner.team }), ...members } }
}

/** How old rows may be is what the standard calls latency. */
function slaOf(slo: ProductFile['slo']) {
  const { freshness, availability } = slo ?? {}
  const properties = [
    ...(freshness === undefined
      ? []
      : [{ property: 'latency', value: Number.parseInt(freshness, 10), unit: freshness.slice(-1) }]),
    ...(availability === undefined ? [] : [{ property: 'availability', value: availability, unit: 'percent' }]),
  ]
  return properties.length === 0 ? {} : { slaProperties: properties }
}

function lostOf({ product, output, quality, serving }: ManifestValues): readonly string[] {
  const hasKey = output.schema.some(({ role }) => role === 'identity')
  const said = (isSaid: boolean, place: string, why: string) => (isSaid ? [`${place}: ${why}`] : [])
  const ours = 'a contract says what readers get, and not how it is kept'
  return [
    'inputs.yaml: a contract does not say what a product is made of',
    'compute.yaml: a contract does not say how it is made',
    ...said(product.access !== undefined, 'product.yaml: access', 'grants are no part of a contract'),
    ...said(output.retention !== undefined, 'output.yaml: retention', ours),
    ...said(output.keep_missing === true, 'output.yaml: keep_missing', ours),
    ...said((output.allow_lossy ?? []).length > 0, 'output.yaml: allow_lossy', ours),
    ...said((output.write_mode ?? implied(hasKey)) !== implied(hasKey), 'output.yaml: write_mode', ours),
    ...said(quality.new_version !== undefined, 'quality.yaml: new_version', ours),
    ...said(
      quality.expectations !== undefined,
      'quality.yaml: expectations',
      'a contract says nothing of what a product is made of',
    ),
    ...said(quality.downstream_expectations !== undefined, 'quality.yaml: downstream_expectations', ours),
    ...said(quality.max_rejected !== undefined, 'quality.yaml: max_rejected', ours),
    ...said(serving.visualization !== undefined, 'serving.yaml: visualization', 'dashboards are no part of a contract'),
  ]
}

const implied = (hasKey: boolean): string => (hasKey ? 'merge' : 'replace')
