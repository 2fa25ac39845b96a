/** The six manifests of a product, as texts. */
import type { LogicalType } from '@sluice/sdk'
import { stringify } from 'yaml'
import type { CheckFields } from '../../manifest/files/quality.ts'
import { MANIFEST_LIMITS } from '../../manifest/files/shape.ts'
import { plain } from '../text-table.ts'
import { type DbtNode, type DbtProject, fieldOf, mapOf, textOf, textsOf } from './artifacts.ts'
import type { JudgedTable } from './judge.ts'
import { nameText } from './tokens.ts'

/** A table that a model reads, as an input. */
export interface ReadInput {
  readonly id: string
  readonly input: ProductInput
  /** Of a product. */
  readonly level?: string | null
  /** Null where nobody knows them. */
  readonly columns: readonly OutputColumn[] | null
}

export interface OutputColumn {
  readonly name: string
  readonly type: LogicalType
  /** The transform gives a list or a struct, and the column is a document. */
  readonly isNested?: boolean
  readonly isRequired?: boolean
  /** Classes by which products hide the column already, or what it is made of: another one would be a lowering. */
  readonly known?: readonly string[]
  readonly description?: string
  /** Null: public. */
  readonly classification: string | null
}

export type ProductInput =
  | { readonly name: string; readonly connection: string; readonly table: string }
  | { readonly name: string; readonly product: string }

export interface Described {
  readonly model: DbtNode
  readonly namespace: string
  readonly name: string
  readonly archetype: 'source_aligned' | 'aggregate' | 'consumer_aligned'
  /** Null: the default. */
  readonly level: string | null
  readonly inputs: readonly ProductInput[]
  readonly columns: readonly OutputColumn[]
  /** Names of columns. */
  readonly key: readonly string[]
  readonly checks: readonly CheckFields[]
  readonly sql: string
}

/** Null where nobody knows the columns of one. */
export function judgedTables(inputs: readonly ReadInput[]): readonly JudgedTable[] | null {
  const tables = inputs.flatMap(({ input, columns }) => (columns === null ? [] : [{ name: input.name, columns }]))
  return tables.length === inputs.length ? tables : null
}

export function manifestTexts(product: Described, project: DbtProject): Readonly<Record<string, string>> {
  const { model, key, inputs, columns, checks } = product
  const file = (kind: string, fields: object) =>
    stringify({ apiVersion: 'svc/v1', kind, ...fields }, { lineWidth: 0, aliasDuplicateObjects: false })
  return {
    product: `# From the dbt model ${plain(model.name)}, ${plain(model.path)}\n${file('Product', productFields(product, project))}`,
    inputs: file('Inputs', { inputs }),
    output: file('Output', {
      format: 'iceberg',
      schema: columns.map((column) => columnFields(column, key)),
      ...(key.length === 0 ? { write_mode: 'replace' } : {}),
    }),
    quality: file('Quality', { checks }),
    serving: file('Serving', { endpoints: [...(key.length === 0 ? [] : [{ type: 'lookup' }]), { type: 'analytics' }] }),
    compute: file('Compute', { engine: 'auto', trigger: 'on_ingestion', transform: transformOf(product) }),
  }
}

function columnFields({ name, type, isRequired, description, classification }: OutputColumn, key: readonly string[]) {
  const isKey = key.includes(name)
  return {
    name,
    type,
    ...(isKey ? { role: 'identity' } : {}),
    ...(isKey || isRequired ? { nullable: false } : {}),
    ...(classification === null ? {} : { classification }),
    ...(description === undefined ? {} : { description: clipped(description) }),
  }
}

const clipped = (text: string): string => {
  const trimmed = text.trim()
  const most = MANIFEST_LIMITS.descriptionLength
  return trimmed.length <= most ? trimmed : `${trimmed.slice(0, most - 1)}…`
}

function transformOf({ sql, columns }: Described): string {
  const nested = columns
    .filter(({ isNested }) => isNested)
    .map(({ name }) => `to_json(${nameText(name)}) AS ${nameText(name)}`)
  const body = `${sql.replaceAll('\r\n', '\n').trim()}\n`
  return nested.length === 0 ? body : `SELECT * REPLACE (${nested.join(', ')}) FROM (\n${body}) AS model\n`
}

const MOST_TAGS = 100

function productFields({ model, name, namespace, archetype, level }: Described, project: DbtProject) {
  const tags = [...new Set(model.tags.map((tag) => tag.trim().slice(0, 100)))].filter(Boolean).slice(0, MOST_TAGS)
  const owner = ownerOf(model, project)
  const access = accessOf(model)
  return {
    name,
    namespace,
    archetype,
    ...(model.description.trim() === '' ? {} : { description: clipped(model.description) }),
    ...(level === null ? {} : { classification: level }),
    ...(Object.keys(owner).length === 0 ? {} : { owner }),
    ...(tags.length === 0 ? {} : { tags }),
    ...(Object.keys(access).length === 0 ? {} : { access }),
  }
}

const isAddress = (text: string): boolean => /^[^@\s]+@[^@\s]+$/.test(text) && text.length <= 320

function ownerOf({ meta, group }: DbtNode, { groups }: DbtProject): { team?: string; email?: string } {
  const said = fieldOf(meta, 'owner')
  const [word = ''] = textsOf(
    Array.isArray(said) ? said : (textOf(said) ?? fieldOf(said, 'name') ?? fieldOf(said, 'email')),
  )
  const team = group ?? (word !== '' && !isAddress(word.trim()) ? word.trim() : null)
  const email = [word.trim(), textOf(fieldOf(mapOf(said), 'email')) ?? '', groups.get(group ?? '')?.email ?? ''].find(
    isAddress,
  )
  return {
    ...(team === null || team === '' ? {} : { team: team.slice(0, MANIFEST_LIMITS.nameLength) }),
    ...(email === undefined ? {} : { email }),
  }
}

/** Whom the project grants reading: addresses are users, others groups. */
function accessOf({ config }: DbtNode): { teams?: readonly string[]; users?: readonly string[] } {
  const granted = textsOf(fieldOf(fieldOf(config, 'grants'), 'select')).map((name) =>
    name.replace(/^(user|group):/, '').trim(),
  )
  const fitting = [...new Set(granted)].filter((name) => name !== '' && name.length <= MANIFEST_LIMITS.nameLength)
  const users = fitting.filter(isAddress)
  const teams = fitting.filter((name) => !isAddress(name))
  return { ...(teams.length === 0 ? {} : { teams }), ...(users.length === 0 ? {} : { users }) }
}
