/** A dbt project as products: which models can be carried, what each becomes, and why others are not. */
import type { LogicalType } from '@sluice/sdk'
import { columnRefusal } from '../../manifest/names.ts'
import type { ParsedManifests } from '../../manifest/parse-manifests.ts'
import { problemLine } from '../product-files.ts'
import { type DbtNode, type DbtProject, fieldOf, textsOf } from './artifacts.ts'
import { keysTested, unquoted } from './checks.ts'
import { columnClass, isOpen, productLevel } from './classes.ts'
import { columnType, lakeType } from './data-types.ts'
import { type Graph, graphOf, isInlined } from './graph.ts'
import type { Judge, Judged } from './judge.ts'
import { judgedTables, manifestTexts, type OutputColumn, type ReadInput } from './manifests.ts'
import type { NotCarried } from './not-carried.ts'
import { aliasFor, productName, takeName } from './product-names.ts'
import { incrementRefusal, modelNotes, modelRefusal } from './refusals.ts'
import { definedNames, partsOf, type Relation, rewritten } from './relations.ts'
import { testsOf } from './tests.ts'
import { type Dialect, dialectOf, nameText, SqlTextError } from './tokens.ts'

export interface Choices {
  readonly connection: string
  /** Null: each model's schema. */
  readonly namespace: string | null
  /** Names of models that stay with dbt, and are read as tables of the connection. */
  readonly tables: ReadonlySet<string>
  /** Classes that are masked besides pii.*. */
  readonly sensitive: readonly string[]
  /** Classes by which products hide columns of the connection already, by `knownKey`. Absent: nobody was asked. */
  readonly known?: ReadonlyMap<string, readonly string[]>
}

/** @param table with its schema */
export const knownKey = (table: string, column: string): string => JSON.stringify([table, column.toLowerCase()])

export interface Carried {
  readonly model: DbtNode
  readonly namespace: string
  readonly name: string
  readonly texts: Readonly<Record<string, string>>
  readonly columns: readonly OutputColumn[]
  readonly checks: number
  /** Of product.yaml; null: the default. */
  readonly level: string | null
  readonly notes: readonly string[]
}

export interface Outcome {
  readonly carried: readonly Carried[]
  /** Models, and tests of those that were carried. */
  readonly notCarried: readonly NotCarried[]
  readonly inlined: readonly DbtNode[]
  /** Read where the warehouse has them. */
  readonly tables: readonly DbtNode[]
}

type Parse = (texts: Readonly<Record<string, string>>) => ParsedManifests

export async function carryProject(
  project: DbtProject,
  choices: Choices,
  judge: Judge,
  parse: Parse,
): Promise<Outcome> {
  return new Carrier(project, choices, judge, parse).all()
}

type Result = Carried | NotCarried
const isCarried = (result: Result | undefined): result is Carried => result !== undefined && 'texts' in result

class Carrier {
  readonly #project: DbtProject
  readonly #choices: Choices
  readonly #judge: Judge
  readonly #parse: Parse
  readonly #graph: Graph
  readonly #dialect: Dialect
  readonly #names = new Map<string, { readonly namespace: string; readonly name: string }>()
  readonly #results = new Map<string, Promise<Result>>()
  readonly #tables = new Set<string>()
  readonly #lostTests: NotCarried[] = []

  constructor(project: DbtProject, choices: Choices, judge: Judge, parse: Parse) {
    this.#project = project
    this.#choices = choices
    this.#judge = judge
    this.#parse = parse
    this.#graph = graphOf(project)
    this.#dialect = dialectOf(project.adapter)
    this.#nameModels()
  }

  async all(): Promise<Outcome> {
    const { models, order, tests } = this.#graph
    const own = models.filter((model) => !this.#isTable(model))
    const around = own.filter((model) => !order.includes(model))
    for (const model of order) if (!this.#isTable(model)) this.#results.set(model.id, this.#carry(model))
    const results = await Promise.all([...this.#results.values()])
    const carried = results.filter(isCarried)
    const done = new Set(carried.map(({ model }) => model.id))
    const without = [...tests].filter(([id]) => !done.has(id) && this.#project.nodes.get(id)?.kind !== 'model')
    const elsewhere = without.flatMap(([id, list]) => list.map((node) => ({ node, reason: this.#testElsewhere(id) })))
    return {
      carried,
      notCarried: [
        ...results.filter((result): result is NotCarried => !isCarried(result)),
        ...around.map((node) => ({ node, reason: 'it is among models that are made of each other in a circle' })),
        ...this.#lostTests,
        ...elsewhere,
      ],
      inlined: [...this.#project.nodes.values()].filter(isInlined),
      tables: [...this.#tables].map((id) => this.#project.nodes.get(id) as DbtNode),
    }
  }

  #testElsewhere(id: string): string {
    const node = this.#project.nodes.get(id)
    return node === undefined
      ? 'it is of several models'
      : `it is of the ${node.kind} ${node.name}, which is no product`
  }

  /** Whether it is read where the warehouse has it. */
  #isTable({ kind, name }: DbtNode): boolean {
    return kind !== 'model' || this.#choices.tables.has(name)
  }

  #nameModels(): void {
    const taken = new Set<string>()
    for (const model of this.#graph.models) {
      const { namespace: chosen } = this.#choices
      const namespace = chosen ?? productName(model.relation.schema, 'namespace')
      // In one namespace names of tables may meet; those of models do not.
      const written = chosen === null || model.version !== null ? model.relation.name : model.name
      const full = takeName(`${namespace}.${productName(written, 'name')}`, taken)
      this.#names.set(model.id, { namespace, name: full.slice(namespace.length + 1) })
    }
  }

  async #carry(model: DbtNode): Promise<Result> {
    const refuse = (reason: string): NotCarried => ({ node: model, reason })
    const refusal = modelRefusal(model)
    if (refusal !== null) return refuse(refusal)
    try {
      return await this.#product(model)
    } catch (error) {
      if (error instanceof Refused || error instanceof SqlTextError) return refuse(error.message)
      throw error
    }
  }

  async #product(model: DbtNode): Promise<Carried> {
    const compiled = model.compiled as string
    const taken = new Set(definedNames(compiled, this.#dialect))
    const inputs: ReadInput[] = []
    for (const id of this.#graph.readsOf(model.id)) inputs.push(await this.#input(id, taken))
    const relations = [
      ...inputs.map((one) => this.#relation(one.id, nameText(one.input.name))),
      this.#relation(model.id, ''),
    ]
    const { sql, found } = rewritten(compiled, relations, this.#dialect)
    const increment = incrementRefusal(model, found.has(inputs.length), this.#dialect)
    if (increment !== null) throw new Refused(increment)
    const read = inputs.filter((_, index) => found.has(index))
    if (read.length === 0)
      throw new Refused('it reads nothing by ref() or source(), and a product is made of one table at least')
    const judged = await this.#judgedSql(sql, read)
    const notes: string[] = [...modelNotes(model, this.#project)]
    const columns = this.#columns(model, judged, read, notes)
    const tests = await this.tests(model, columns, read, taken)
    this.#lostTests.push(...tests.lost)
    return this.#written(model, sql, columns, notes, tests)
  }

  #relation(id: string, becomes: string): Relation {
    const { relation, relationName } = this.#project.nodes.get(id) as DbtNode
    const named = relationName === null ? [] : partsOf(relationName, this.#dialect)
    const told = [relation.database, relation.schema, relation.name].filter((part) => part !== null && part !== '')
    return { parts: named.length > 0 ? named : (told as string[]), becomes }
  }

  async #input(id: string, taken: Set<string>): Promise<ReadInput> {
    const node = this.#project.nodes.get(id) as DbtNode
    const name = takeName(aliasFor(node.relation.name), taken)
    if (this.#isTable(node)) return this.#tableInput(node, name)
    const result = await this.#results.get(id)
    if (!isCarried(result)) throw new Refused(`it reads ${node.name}, which is not carried`)
    return {
      id,
      input: { name, product: `${result.namespace}.${result.name}` },
      level: result.level,
      columns: result.columns,
    }
  }

  #tableInput(node: DbtNode, name: string): ReadInput {
    const { schema, name: table } = node.relation
    if (schema === '' || schema.includes('.'))
      throw new Refused(`it reads ${node.name}, whose schema has no plain name`)
    if (node.kind !== 'source') this.#tables.add(node.id)
    const { adapter, catalog } = this.#project
    const told = node.columns.map(({ name: column, dataType }) => ({ name: column, type: dataType ?? '' }))
    const known = catalog.get(node.id) ?? (told.length > 0 && told.every(({ type }) => type !== '') ? told : null)
    const classes = new Map(
      node.columns.map((column) => [column.name.toLowerCase(), columnClass(column, this.#choices.sensitive)]),
    )
    const input = { name, connection: this.#choices.connection, table: `${schema}.${table}` }
    const columns = known?.map((column): OutputColumn => {
      const hiding = this.#choices.known?.get(knownKey(input.table, column.name)) ?? []
      const said = classes.get(column.name.toLowerCase()) ?? null
      return {
        name: column.name,
        type: lakeType(column.type, adapter)?.type ?? ('string' as LogicalType),
        classification: knownOr(said, hiding),
        ...(hiding.length === 0 ? {} : { known: hiding }),
      }
    })
    return { id: node.id, input, columns: columns ?? null }
  }

  /** Null where the columns of an input are not known, so that nothing can be said. */
  async #judgedSql(sql: string, inputs: readonly ReadInput[]): Promise<(Judged & { refusal: null }) | null> {
    const tables = judgedTables(inputs)
    if (tables === null) return null
    const judged = await this.#judge(sql, tables)
    if (judged.refusal === null) return judged
    throw new Refused(`the engine does not take its SQL: ${judged.refusal}`)
  }

  #columns(
    model: DbtNode,
    judged: (Judged & { refusal: null }) | null,
    inputs: readonly ReadInput[],
    notes: string[],
  ): readonly OutputColumn[] {
    const { adapter, catalog } = this.#project
    const told = model.columns.filter(({ dataType }) => dataType !== null && dataType !== '')
    const listed =
      catalog.get(model.id) ?? (judged === null && told.length < model.columns.length ? [] : told.map(asListed))
    const saying = new Map(listed.map((column) => [column.name.toLowerCase(), column.type]))
    const names = judged?.columns ?? listed.map(({ name }) => ({ name: plainCase(name, adapter), type: null }))
    if (names.length === 0)
      throw new Refused('its columns are not known: run dbt docs generate, then dbt compile --full-refresh')
    const described = new Map(model.columns.map((column) => [column.name.toLowerCase(), column]))
    const inherited = inheritedColumns(judged, inputs)
    const unfit = names.find(({ name }) => !COLUMN_NAME.test(name) || columnRefusal(name) !== null)
    if (unfit !== undefined)
      throw new Refused(`its column "${unfit.name}" cannot be called so: give it another name in the model`)
    return names.map(({ name, type: given }): OutputColumn => {
      const said = saying.get(name.toLowerCase())
      const lake = said === undefined ? null : lakeType(said, adapter)
      const type = columnType(lake, given)
      if (type === null)
        throw new Refused(`its column ${name} has the type ${said ?? 'unknown'}, which the lake does not have`)
      if (lake !== null && lake.type !== type.type) notes.push(`${name}: ${said} in dbt, ${type.type} here`)
      const dbt = described.get(name.toLowerCase())
      const own = dbt === undefined ? null : columnClass(dbt, this.#choices.sensitive)
      const from = inherited.get(name.toLowerCase())
      const known = from?.known ?? []
      const classification = knownOr(own, known) ?? from?.classification ?? null
      if (known.length > 0 && classification !== null)
        notes.push(`${name}: ${classification}, by which products hide already what it is made of`)
      return {
        name,
        ...type,
        classification,
        ...(known.length === 0 || classification === null ? {} : { known: [classification] }),
        ...(dbt === undefined || dbt.description === '' ? {} : { description: dbt.description }),
        ...(dbt?.constraints.includes('not_null') ? { isRequired: true } : {}),
      }
    })
  }

  async tests(model: DbtNode, columns: readonly OutputColumn[], inputs: readonly ReadInput[], taken: Set<string>) {
    const all = [...inputs]
    const inputOf = async (id: string): Promise<ReadInput | string> => {
      const known = all.find((one) => one.id === id)
      if (known !== undefined) return known
      try {
        const added = await this.#input(id, taken)
        all.push(added)
        return added
      } catch (error) {
        if (error instanceof Refused) return error.message
        throw error
      }
    }
    const own = this.#graph.tests.get(model.id) ?? []
    const { checks, lost } = await testsOf(own, {
      model,
      columns,
      dialect: this.#dialect,
      compared: this.#graph.compared,
      inputs: () => all,
      inputOf,
      relation: (id, becomes) => this.#relation(id, becomes),
      judge: this.#judge,
    })
    return { checks, lost, inputs: all, own }
  }

  #written(
    model: DbtNode,
    sql: string,
    columns: readonly OutputColumn[],
    notes: readonly string[],
    { checks, inputs, own }: Awaited<ReturnType<Carrier['tests']>>,
  ): Carried {
    const names = this.#names.get(model.id) as { readonly namespace: string; readonly name: string }
    const { key, note } = keyOf(model, columns, own)
    const level = productLevel(
      model.meta,
      inputs.flatMap((one) => (one.level === undefined ? [] : [one.level])),
    )
    const hidden = columns.filter(({ classification }) => classification !== null).map(({ name }) => name)
    const forReaders = [
      ...(isOpen(level) ? [] : [`it is ${level}: whoever applies what is made of it needs a grant to read it`]),
      ...(hidden.length === 0
        ? []
        : [`${hidden.join(', ')}: masked in what is made of it, unless whoever applies that is cleared`]),
    ]
    const texts = manifestTexts(
      {
        model,
        ...names,
        archetype: this.#archetype(model, inputs),
        level,
        inputs: inputs.map(({ input }) => input),
        columns,
        key,
        checks,
        sql,
      },
      this.#project,
    )
    const parsed = this.#parse(texts)
    if (!parsed.ok)
      throw new Refused(`its manifests would be refused: ${parsed.problems.slice(0, 3).map(problemLine).join('; ')}`)
    return {
      model,
      ...names,
      texts,
      columns,
      checks: checks.length,
      level,
      notes: [...notes, ...note, ...(this.#isRead(model) ? forReaders : [])],
    }
  }

  #archetype(model: DbtNode, inputs: readonly ReadInput[]): 'source_aligned' | 'aggregate' | 'consumer_aligned' {
    if (inputs.every(({ input }) => 'connection' in input)) return 'source_aligned'
    return this.#isRead(model) ? 'aggregate' : 'consumer_aligned'
  }

  #isRead(model: DbtNode): boolean {
    return this.#graph.models.some(({ id }) => this.#graph.readsOf(id).has(model.id))
  }
}

/** As output.yaml takes them. */
const COLUMN_NAME = /^[A-Za-z_][A-Za-z0-9_]{0,62}$/

class Refused extends Error {}

const asListed = ({ name, dataType }: DbtNode['columns'][number]) => ({ name, type: dataType ?? '' })

/** Snowflake has names in capitals that nobody wrote so. */
const plainCase = (name: string, adapter: string): string =>
  adapter === 'snowflake' && name === name.toUpperCase() ? name.toLowerCase() : name

/** What is said, where products hide the column by it already, or do not hide it; else the class by which they do. */
function knownOr(said: string | null, known: readonly string[]): string | null {
  return said === null || (known.length > 0 && !known.includes(said)) ? (known[0] ?? said) : said
}

/** By column of the output, the class of a column that its values are made of. */
function inheritedColumns(
  judged: Judged | null,
  inputs: readonly ReadInput[],
): ReadonlyMap<string, Pick<OutputColumn, 'classification' | 'known'>> {
  const found = new Map<string, Pick<OutputColumn, 'classification' | 'known'>>()
  const hidden = (inputName: string | null, column: string) =>
    inputs
      .filter(({ input }) => inputName === null || input.name.toLowerCase() === inputName.toLowerCase())
      .flatMap(({ columns }) => columns ?? [])
      .find(({ name, classification }) => name.toLowerCase() === column.toLowerCase() && classification !== null)
  if (judged === null || judged.refusal !== null) {
    // Nothing says what columns are made of; those of one name are taken for the same.
    for (const { name } of inputs.flatMap(({ columns }) => columns ?? [])) {
      const own = hidden(null, name)
      if (own) found.set(name.toLowerCase(), own)
    }
    return found
  }
  for (const { name, direct } of judged.lineage) {
    const all = direct.flatMap(({ table, column }) => hidden(table.at(-1) ?? null, column) ?? [])
    const own = all.find(({ known = [] }) => known.length > 0) ?? all[0]
    if (own !== undefined) found.set(name.toLowerCase(), own)
  }
  return found
}

const NO_KEY_TYPES = ['float', 'double', 'json']

/** Declared as a key, else what increments go by, else tested to be one. */
function keyOf(model: DbtNode, columns: readonly OutputColumn[], tests: readonly DbtNode[]) {
  const byName = new Map(columns.map((column) => [column.name.toLowerCase(), column]))
  const declared = model.constraints.filter(({ kind }) => kind === 'primary_key').map(({ columns: names }) => names)
  const marked = model.columns.filter(({ constraints }) => constraints.includes('primary_key')).map(({ name }) => name)
  const increments = model.materialized === 'incremental' ? textsOf(fieldOf(model.config, 'unique_key')) : []
  const candidates = [...declared, marked, increments.map(unquoted), ...keysTested(tests)]
  const fits = (names: readonly string[]) =>
    names.length > 0 &&
    names.every((name) => {
      const column = byName.get(name.toLowerCase())
      return column !== undefined && !NO_KEY_TYPES.includes(column.type)
    })
  const found = candidates.find(fits) ?? []
  const isLost = increments.length > 0 && !fits(increments.map(unquoted))
  return {
    key: found.map((name) => byName.get(name.toLowerCase())?.name as string),
    note: isLost ? [`its unique_key ${increments.join(', ')} is not of columns that can be a key`] : [],
  }
}
