/** A product as a contract asks for it; and what of the contract no manifest says. */
import { lakeNameRefusal } from '@sluice/iceberg/names'
import { parseDocument } from 'yaml'
import { rawTableName } from '../../manifest/context.ts'
import { ARCHETYPES, CLASSIFICATION_LEVELS } from '../../manifest/files/product.ts'
import type { DraftColumn, ProductDraft } from '../product-draft.ts'
import { nameFrom } from '../product-names.ts'
import { keyOf, proposedEndpoints } from '../proposed-parts.ts'
import { projection } from '../table-draft.ts'
import { OWN, OWN_SERVER } from './contract.ts'
import { ownProperties, Part } from './part.ts'
import { descriptionOf, ownerOf, sloOf, tagsOf } from './read-agreement.ts'
import { checksOf } from './read-checks.ts'
import { columnsOf, type ReadColumns } from './read-columns.ts'
import { ALL_STORES, type Parse, type ReadContract, settled } from './settled.ts'

const MOST_BYTES = 4 * 1024 * 1024

export interface ContractChoices {
  /** Of several in the contract; null: it has one. */
  readonly object: string | null
  readonly namespace: string | null
  /** What the folder says, where the contract does not. */
  readonly folderNamespace: string | null
  readonly guess: boolean
}

/** Throws where it is no contract of version 3. What the checks of manifests refuse is left out, and told. */
export function draftOfContract(text: string, choices: ContractChoices, parse: Parse): ReadContract {
  const lost: string[] = []
  const contract = new Part(contractIn(text), '', lost)
  const object = objectOf(contract, choices.object)
  const read = columnsOf(object, choices.guess)
  const checks = checksOf(object, read)
  const draft = draftFrom(contract, object, read, choices, lost)
  object.end()
  contract.end()
  return settled(draft, checks, lost, parse)
}

function contractIn(text: string): unknown {
  if (text.length > MOST_BYTES) throw new Error('the contract is larger than 4 MiB')
  const value = ((): unknown => {
    try {
      const document = parseDocument(text, { version: '1.2', schema: 'core', merge: false })
      const [error] = document.errors
      if (error) throw error
      return document.toJS({ maxAliasCount: 100 })
    } catch (cause) {
      const [line = ''] = (cause as Error).message.split('\n')
      throw new Error(`the contract cannot be read as YAML: ${line}`, { cause })
    }
  })()
  const { apiVersion, kind } = (value ?? {}) as { readonly apiVersion?: unknown; readonly kind?: unknown }
  if (kind !== 'DataContract') throw new Error('the file is no contract: it has no line "kind: DataContract"')
  if (typeof apiVersion !== 'string' || !/^v3\.\d+\.\d+$/.test(apiVersion)) {
    throw new Error(`the contract is of the version ${String(apiVersion).slice(0, 20)}, and those of v3 are read`)
  }
  return value
}

function objectOf(contract: Part, wanted: string | null): Part {
  const objects = contract.parts('schema')
  const names = objects.map((one) => one.text('name') ?? '')
  if (objects.length === 0) throw new Error('the contract describes no object: its schema is empty')
  if (wanted === null && objects.length > 1) {
    throw new Error(
      `the contract describes several objects: name one, as in FILE#${names[0]}; it has ${names.slice(0, 20).join(', ')}`,
    )
  }
  const index = wanted === null ? 0 : names.indexOf(wanted)
  if (index < 0) throw new Error(`the contract has no object "${wanted}"; it has ${names.slice(0, 20).join(', ')}`)
  return objects[index] as Part
}

function draftFrom(
  contract: Part,
  object: Part,
  { columns, sources, partitioning }: ReadColumns,
  choices: ContractChoices,
  lost: string[],
): ProductDraft {
  sayIdentity(contract, object)
  const written = object.text('name') ?? ''
  const title = contract.text('name')
  const name = nameFrom(written, 'name') ?? (title === null ? null : nameFrom(title, 'name')) ?? 'my_product'
  if (title !== null && title !== written) contract.say('name', 'a product is called as its object is')
  if (name !== written) object.say('name', `"${written.slice(0, 100)}" is ${name} here`)
  const domain = contract.text('domain')
  const ofDomain = domain === null ? null : nameFrom(domain, 'namespace')
  if (domain !== null && ofDomain !== domain && choices.namespace === null)
    contract.say('domain', `"${domain.slice(0, 100)}" is ${ofDomain ?? 'none'} here`)
  const own = ownProperties(contract, [OWN.archetype, OWN.classification, OWN.endpoints])
  const { endpoints, notes } = endpointsOf(own.get(OWN.endpoints), name, columns)
  const archetype = own.get(OWN.archetype)
  const { table, note } = tableOf(object, name)
  const alias = name === 'this' ? 'source' : name
  const isRenamed = columns.some((column, index) => column.name !== sources[index])
  const carried = columns.map((column, index) => ({ source: sources[index] as string, column }))
  lost.push(`inputs.yaml: ${note}`)
  return {
    product: {
      name,
      namespace: choices.namespace ?? ofDomain ?? choices.folderNamespace ?? 'core',
      archetype: (ARCHETYPES as readonly unknown[]).includes(archetype) ? archetype : 'source_aligned',
      ...descriptionOf(contract),
      classification: levelOf(own.get(OWN.classification), columns),
      ...ownerOf(contract),
      ...tagsOf(contract),
      ...sloOf(contract),
    },
    inputs: [{ name: alias, connection: 'my_connection', table }],
    inputNotes: [note],
    columns,
    output: {
      ...(partitioning.length === 0 ? {} : { partitioning }),
      write_mode: keyOf(columns).length > 0 ? 'merge' : 'replace',
    },
    quality: { checks: [] },
    endpoints,
    endpointNotes: notes,
    compute: {
      engine: 'auto',
      ...(isRenamed ? { transform: projection(carried, alias) } : {}),
      trigger: 'on_ingestion',
    },
  }
}

/** What a contract is called and where it stands: a product has other words for it, or says it elsewhere. */
function sayIdentity(contract: Part, object: Part): void {
  contract.value('apiVersion')
  contract.value('kind')
  const own = `${contract.text('domain')}.${object.text('name')}`
  for (const key of ['id', 'dataProduct']) {
    const said = contract.text(key)
    if (said !== null && said !== own) contract.say(key, 'a product has its name, and no other')
  }
  const version = contract.text('version')
  if (version !== null) contract.say('version', `give it when you deploy: --version ${version.slice(0, 50)}`)
  const status = contract.text('status')
  if (status !== null && !['active', 'draft'].includes(status))
    contract.say('status', 'a product is in service, or not yet')
  for (const server of contract.parts('servers')) {
    if (server.text('server') !== OWN_SERVER) server.say('', 'a product is served where it is deployed')
  }
  const kind = object.text('physicalType')
  if (kind !== null && kind.toLowerCase() !== 'table')
    object.say('physicalType', `a ${kind.slice(0, 50)} is read as a table`)
  if (object.text('logicalType') === 'blob') object.say('logicalType', 'a blob is read as a table')
}

function tableOf(object: Part, name: string) {
  const physical = object.text('physicalName')
  const table = physical ?? `public.${name}`
  const isSayable = table.length <= 255 && lakeNameRefusal(rawTableName(table)) === null
  const note = 'the contract does not say where rows come from: fill in the connection, and the table'
  return { table: isSayable ? table : `public.${name}`, note }
}

function endpointsOf(said: unknown, name: string, columns: readonly DraftColumn[]) {
  const isList =
    Array.isArray(said) && said.every((one) => typeof one === 'object' && one !== null && !Array.isArray(one))
  if (isList) return { endpoints: said as readonly Readonly<Record<string, unknown>>[], notes: [] }
  return proposedEndpoints(name, columns, ALL_STORES)
}

/** The product is as protected as the most protected of its columns. */
function levelOf(said: unknown, columns: readonly DraftColumn[]): string {
  const levels: readonly string[] = CLASSIFICATION_LEVELS
  const own = levels.indexOf(typeof said === 'string' ? said : 'internal')
  const most = Math.max(...columns.map(({ classification = '' }) => levels.indexOf(classification)))
  return levels[Math.max(own < 0 ? 1 : own, most)] as string
}
