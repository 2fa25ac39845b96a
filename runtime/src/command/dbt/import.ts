/** `sluice dbt import`: the models of a compiled dbt project, as a folder of products. A server is asked with --known-classes alone. */

import { nameRefusal } from '../../manifest/names.ts'
import { listed, required, UsageError } from '../arguments.ts'
import { type CommandCall, Ending, word } from '../command.ts'
import { manifestParser } from '../lint.ts'
import { discoveredTables } from '../product-init.ts'
import { plain, textTable } from '../text-table.ts'
import { type DbtNode, type DbtProject, readProject } from './artifacts.ts'
import { carryProject, knownKey, type Outcome } from './carry.ts'
import { checkFree, writeProducts } from './folder.ts'
import { withJudge } from './judge.ts'

const NOTHING = 1
const PARTLY = 2
/** A folder of more is not applied. */
const MOST_MODELS = 1_000

export async function importDbt(call: CommandCall): Promise<Ending> {
  const target = word(call, 0, 'TARGET_FOLDER')
  const folder = word(call, 1, 'OUT_FOLDER')
  const connection = required(call.args, 'connection')
  const namespace = call.args.flags['namespace'] ?? null
  const refusal = namespace === null ? null : nameRefusal(namespace, 'namespace')
  if (refusal !== null) throw new UsageError(`the namespace ${refusal}`)
  await checkFree(folder)
  const project = await readProject(target)
  const models = [...project.nodes.values()].filter(({ kind }) => kind === 'model')
  if (models.length > MOST_MODELS) throw new UsageError(`the project has more than ${MOST_MODELS} models`)
  const tables = new Set(listed(call.args, 'tables'))
  const unknown = [...tables].find((name) => !models.some((model) => model.name === name))
  if (unknown !== undefined) throw new UsageError(`--tables: the project has no model "${unknown}"`)
  const config = await call.config()
  const parse = await manifestParser(config)
  const known = call.args.flags['known-classes'] === undefined ? {} : { known: await knownClasses(call, connection) }
  const choices = { connection, namespace, tables, sensitive: config.masking.sensitive, ...known }
  const outcome = await withJudge((judge) => carryProject(project, choices, judge, parse))
  if (outcome.carried.length > 0) await writeProducts(folder, outcome.carried)
  return ending(call, folder, project, outcome)
}

/** As far as the caller may know them. */
async function knownClasses(call: CommandCall, connection: string): Promise<ReadonlyMap<string, readonly string[]>> {
  const tables = await discoveredTables(await call.client(), connection)
  return new Map(
    tables.flatMap(({ schema, name: table, columns }) =>
      columns.map(({ name, classes = [] }) => [knownKey(`${schema}.${table}`, name), classes] as const),
    ),
  )
}

function ending(call: CommandCall, folder: string, project: DbtProject, outcome: Outcome): Ending {
  const { carried, notCarried } = outcome
  const code = carried.length === 0 ? NOTHING : notCarried.length > 0 ? PARTLY : 0
  const report = reportOf(project, outcome)
  const reason = code === NOTHING ? 'no model can be carried, and nothing was written' : null
  return new Ending(code, call.args.flags['json'] ? report : inWords(folder, report), reason)
}

type Report = ReturnType<typeof reportOf>

function reportOf({ exposures }: DbtProject, { carried, notCarried, inlined, tables }: Outcome) {
  return {
    products: carried.map(({ model, namespace, name, checks, notes }) => ({
      product: `${namespace}.${name}`,
      folder: `${namespace}/${name}`,
      model: model.name,
      renamed: name !== model.name,
      checks,
      notes,
    })),
    inlined: inlined.map(({ name }) => name),
    tables: tables.map(({ name, kind, relation }) => ({
      name,
      kind,
      table: `${relation.schema}.${relation.name}`,
      note: KEPT[kind] ?? '',
    })),
    not_carried: notCarried.map(({ node, reason }) => ({ name: node.name, kind: kindOf(node), reason })),
    exposures,
  }
}

const kindOf = ({ kind }: DbtNode): string => (kind === 'model' ? 'model' : kind)

const KEPT: Readonly<Record<string, string>> = {
  seed: 'dbt seed fills it; the connection reads it as a table',
  snapshot: 'dbt snapshot goes on with it; the connection reads it as a table',
  model: 'dbt goes on making it; the connection reads it as a table',
}

function inWords(folder: string, { products, tables, not_carried: lost, exposures, inlined }: Report): string {
  const models = lost.filter(({ kind }) => kind === 'model')
  const rows = [
    ...products.map(({ model, product, checks }) => [model, 'carried', product, checks]),
    ...inlined.map((name) => [name, 'inlined', '', '']),
    ...models.map(({ name }) => [name, 'not carried', '', '']),
  ]
  const paragraph = (title: string, lines: readonly string[]) =>
    lines.length === 0 ? [] : ['', title, ...lines.map((line) => `  ${plain(line)}`)]
  return [
    textTable(['model', 'is', 'product', 'checks'], rows),
    ...paragraph(
      'Not carried:',
      lost.map(({ name, kind, reason }) => `${kind} ${name}: ${reason}`),
    ),
    ...paragraph('Exposures are not carried:', exposures),
    ...paragraph(
      'Read as tables:',
      tables.map(({ kind, name, table, note }) => `${kind} ${name} (${table}): ${note}`),
    ),
    ...paragraph(
      'Differs:',
      products.flatMap(({ product, model, renamed, notes }) => [
        ...(renamed ? [`${product}: called ${model} in dbt`] : []),
        ...notes.map((note) => `${product}: ${note}`),
      ]),
    ),
    '',
    products.length === 0
      ? 'Nothing was written.'
      : `${products.length} of ${products.length + models.length} models are products in ${plain(folder)}. Look at them with: sluice apply ${plain(folder)} --check`,
  ].join('\n')
}
