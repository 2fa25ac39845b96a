import type { Chance } from './worlds.fixture.ts'

/** Small queries, made by chance, over the tables of `worlds.fixture.ts`; most of them can be bound. */

type Kind = 'int' | 'text' | 'bool' | 'list'

interface Column {
  /** As it is called in an expression. */
  readonly name: string
  readonly kind: Kind
}

interface Source {
  readonly sql: string
  readonly columns: readonly Column[]
}

export const BASES: Readonly<Record<string, Readonly<Record<string, Kind>>>> = {
  people: { id: 'int', email: 'text', alt: 'text', pay: 'int', city: 'text', grp: 'int', tags: 'list', code: 'list' },
  staff: { id: 'int', email: 'text', pay: 'int', city: 'text', lvl: 'int' },
  seen: { id: 'int', alt: 'text', day: 'int', city: 'text' },
}

const CONSTANTS: Readonly<Record<Kind, string>> = { int: '2', text: "'rome'", bool: 'true', list: '[1, 2]' }

export class RandomQuery {
  readonly #random: Chance
  #names = 0
  #ctes: { readonly name: string; readonly columns: readonly Column[] }[] = []

  constructor(random: Chance) {
    this.#random = random
  }

  /** A statement that gives at least one column. */
  statement(): string {
    this.#names = 0
    this.#ctes = []
    const ctes: string[] = []
    for (let at = 0; at < 2 && this.#chance(4); at++) {
      const { sql, columns } = this.#query(1, [])
      const name = this.#name('w')
      ctes.push(`${name} AS (${sql})`)
      this.#ctes.push({ name, columns })
    }
    if (this.#chance(20)) {
      const name = this.#name('r')
      const first = this.#select(1, [], ['int'])
      ctes.push(`${name}(n) AS (${first.sql} UNION ALL SELECT n + 1 FROM ${name} WHERE n < 4)`)
      this.#ctes.push({ name, columns: [{ name: 'n', kind: 'int' }] })
    }
    const { sql } = this.#query(1 + this.#random.below(3), [])
    return ctes.length === 0 ? sql : `WITH RECURSIVE ${ctes.join(', ')} ${sql}`
  }

  #chance(oneIn: number): boolean {
    return this.#random.below(oneIn) === 0
  }

  #name(prefix: string): string {
    this.#names += 1
    return `${prefix}${this.#names}`
  }

  #query(depth: number, outer: readonly Column[], kinds?: readonly Kind[]): Source {
    if (depth > 0 && this.#chance(7)) return this.#setOperation(depth, outer, kinds)
    return this.#select(depth, outer, kinds)
  }

  #setOperation(depth: number, outer: readonly Column[], kinds?: readonly Kind[]): Source {
    const left = this.#select(depth - 1, outer, kinds)
    const right = this.#select(
      depth - 1,
      outer,
      left.columns.map(({ kind }) => kind),
    )
    const word = this.#random.pick(['UNION ALL', 'UNION ALL', 'UNION', 'EXCEPT', 'INTERSECT', 'EXCEPT ALL'])
    return { sql: `(${left.sql}) ${word} (${right.sql})${this.#tail(left.columns)}`, columns: left.columns }
  }

  #select(depth: number, outer: readonly Column[], kinds?: readonly Kind[]): Source {
    const from = this.#from(depth, outer)
    const inSight = from.columns
    const isGrouped = this.#chance(3)
    const where = this.#chance(2) ? ` WHERE ${this.#conditions(depth, inSight, outer)}` : ''
    if (isGrouped) return this.#grouped(from, where, kinds)
    const wanted = kinds ?? Array.from({ length: 1 + this.#random.below(4) }, () => this.#kind())
    const items = wanted.map((kind) => ({ name: this.#name('c'), kind, sql: this.#item(kind, depth, inSight, outer) }))
    const list = items.map(({ name, sql }) => `${sql} AS ${name}`).join(', ')
    const distinct = this.#chance(10) ? 'DISTINCT ' : this.#chance(14) ? `DISTINCT ON (${this.#any(inSight)}) ` : ''
    const qualify = this.#chance(14) ? ` QUALIFY row_number() OVER (${this.#window(inSight)}) <= 2` : ''
    const isStar = kinds === undefined && this.#chance(12)
    const columns = items.map(({ name, kind }) => ({ name, kind }))
    const tail = this.#tail(isStar ? [] : columns)
    return {
      sql: `SELECT ${distinct}${isStar ? `*, ${list}` : list} FROM ${from.sql}${where}${qualify}${tail}`,
      columns,
    }
  }

  #grouped(from: Source, where: string, kinds?: readonly Kind[]): Source {
    const scalars = from.columns.filter(({ kind }) => kind !== 'list')
    const keys = Array.from({ length: scalars.length === 0 ? 0 : this.#random.below(3) }, () => {
      const column = this.#random.pick(scalars)
      return this.#chance(5)
        ? { ...column, sql: this.#expression(column.kind, 1, from.columns, []) }
        : { ...column, sql: column.name }
    })
    const byKey = (kind: Kind) => keys.filter((key) => key.kind === kind).map(({ sql }) => sql)
    const wanted = kinds ?? [
      ...keys.filter(() => !this.#chance(5)).map(({ kind }) => kind),
      'int' as const,
      this.#kind(),
    ]
    const items = wanted.map((kind, at) => {
      const key = keys[at]
      const usesKey = key?.kind === kind && (kinds === undefined ? at < keys.length : this.#chance(2))
      const sql = usesKey ? key.sql : this.#aggregate(kind, from.columns, byKey(kind))
      return { name: this.#name('g'), kind, sql, usesKey }
    })
    const list = items.map(({ name, sql }) => `${sql} AS ${name}`).join(', ')
    const isAll = this.#chance(8)
    const plain = keys.map(({ sql }) => sql).join(', ')
    const rolled = this.#chance(9) ? `ROLLUP (${plain})` : plain
    const group = isAll ? ' GROUP BY ALL' : keys.length === 0 ? '' : ` GROUP BY ${rolled}`
    const having = this.#chance(5)
      ? ` HAVING ${this.#aggregate('int', from.columns, [])} > ${this.#random.below(4)}`
      : ''
    const columns = items.map(({ name, kind }) => ({ name, kind }))
    return { sql: `SELECT ${list} FROM ${from.sql}${where}${group}${having}${this.#tail(columns)}`, columns }
  }

  #aggregate(kind: Kind, inSight: readonly Column[], keys: readonly string[]): string {
    if (keys.length > 0 && this.#chance(3)) return this.#random.pick(keys)
    const of = (wanted: Kind) => this.#expression(wanted, 1, inSight, [])
    const filter = this.#chance(7) ? ` FILTER (WHERE ${of('bool')})` : ''
    switch (kind) {
      case 'int':
        return `${this.#random.pick(['count(*)', `count(${this.#any(inSight)})`, `sum(${of('int')})`, `max(${of('int')})`, 'count(*)', `count(DISTINCT ${this.#any(inSight)})`, `any_value(${of('int')})`, `first(${of('int')} ORDER BY ${this.#any(inSight)})`])}${filter}`
      case 'text':
        return `${this.#random.pick([`min(${of('text')})`, `first(${of('text')})`, `string_agg(${of('text')}, ',')`, `arg_max(${of('text')}, ${of('int')})`, `mode(${of('text')})`])}${filter}`
      case 'bool':
        return `bool_or(${of('bool')})${filter}`
      case 'list':
        return `list(${of('int')} ORDER BY ${of('int')})${filter}`
    }
  }

  #window(inSight: readonly Column[]): string {
    const partition = this.#chance(2) ? `PARTITION BY ${this.#any(inSight)} ` : ''
    return this.#chance(3) ? partition : `${partition}ORDER BY ${this.#any(inSight)}`
  }

  /** What stands behind a query: order, limit, sample. */
  #tail(columns: readonly Column[]): string {
    const [first] = columns
    const order =
      first !== undefined && this.#chance(8)
        ? ` ORDER BY ${this.#random.pick([first.name, '1', `${first.name} DESC NULLS FIRST`, 'ALL'])}`
        : ''
    return `${order}${this.#chance(9) ? ` LIMIT ${1 + this.#random.below(4)}` : ''}`
  }

  #from(depth: number, outer: readonly Column[]): Source {
    const left = this.#relation(depth)
    if (depth <= 0 || this.#chance(3)) return left
    return this.#join(left, depth, outer)
  }

  #join(left: Source, depth: number, outer: readonly Column[]): Source {
    const right = this.#relation(depth - 1)
    const both = [...left.columns, ...right.columns]
    const [table, ...kinds] = [
      this.#name('j'),
      'JOIN',
      'LEFT JOIN',
      'RIGHT JOIN',
      'FULL JOIN',
      'SEMI JOIN',
      'ANTI JOIN',
    ]
    switch (this.#random.below(12)) {
      case 0:
        return { sql: `${left.sql}, ${right.sql}`, columns: both }
      case 1: {
        const bound = this.#ofKind('int', left.columns) ?? '2'
        const column = { name: `${table}.n`, kind: 'int' as const }
        return {
          sql: `${left.sql} JOIN range(0, 30) ${table}(n) ON ${column.name} = ${bound}`,
          columns: [...left.columns, column],
        }
      }
      case 2: {
        const list = this.#ofKind('list', left.columns) ?? '[1, 2]'
        const column = { name: `${table}.u`, kind: 'int' as const }
        return { sql: `${left.sql}, unnest(${list}) AS ${table}(u)`, columns: [...left.columns, column] }
      }
      case 3: {
        const inner = this.#select(depth - 2, left.columns)
        const columns = inner.columns.map((column) => ({ ...column, name: `${table}.${column.name}` }))
        return { sql: `${left.sql}, LATERAL (${inner.sql}) AS ${table}`, columns: [...left.columns, ...columns] }
      }
      case 5: {
        const own = this.#ofKind('int', left.columns) ?? '1'
        const other = this.#ofKind('int', right.columns) ?? '1'
        return { sql: `${left.sql} ASOF JOIN ${right.sql} ON ${own} >= ${other}`, columns: both }
      }
      case 6: {
        const names = ['email', 'city', 'id', 'alt'].filter(
          (name) => this.#hasBare(left, name) && this.#hasBare(right, name),
        )
        if (names.length === 0) break
        const sql = `${left.sql} ${this.#random.pick(kinds)} ${right.sql} USING (${this.#random.pick(names)})`
        return { sql, columns: left.columns }
      }
      case 7:
        return { sql: `${left.sql} NATURAL JOIN ${right.sql}`, columns: left.columns }
      default:
    }
    const kind = this.#random.pick(kinds)
    const isOneSided = kind === 'SEMI JOIN' || kind === 'ANTI JOIN'
    const sql = `${left.sql} ${kind} ${right.sql} ON ${this.#pairing(left.columns, right.columns, both, outer)}`
    return { sql, columns: isOneSided ? left.columns : both }
  }

  #hasBare(source: Source, name: string): boolean {
    return source.columns.filter((column) => column.name.endsWith(`.${name}`)).length === 1
  }

  /** Mostly `=` of two columns. */
  #pairing(
    left: readonly Column[],
    right: readonly Column[],
    both: readonly Column[],
    outer: readonly Column[],
  ): string {
    const own = this.#random.pick(left)
    const other = right.filter(({ kind }) => kind === own.kind)
    if (other.length === 0) return this.#expression('bool', 1, both, outer)
    const emails = (columns: readonly Column[]) => columns.filter(({ name }) => /\.(email|alt)$/.test(name))
    const [a, b] =
      this.#chance(2) && emails(left).length > 0 && emails(right).length > 0
        ? [this.#random.pick(emails(left)), this.#random.pick(emails(right))]
        : [own, this.#random.pick(other)]
    const sign = this.#random.pick(['=', '=', '=', '=', '<', '<>', 'IS NOT DISTINCT FROM'])
    const more = this.#chance(4) ? ` AND ${this.#expression('bool', 1, both, outer)}` : ''
    return `${a.name} ${sign} ${b.name}${more}`
  }

  #relation(depth: number): Source {
    const alias = this.#name('t')
    const under = (columns: readonly Column[]) =>
      columns.map((column) => ({ ...column, name: `${alias}.${column.name}` }))
    const choice = this.#random.below(10)
    if (choice < 2 && this.#ctes.length > 0) {
      const cte = this.#random.pick(this.#ctes)
      return { sql: `${cte.name} AS ${alias}`, columns: under(cte.columns) }
    }
    if (choice < 5 && depth > 0) {
      const inner = this.#query(depth - 1, [])
      return { sql: `(${inner.sql}) AS ${alias}`, columns: under(inner.columns) }
    }
    if (choice === 9 && this.#chance(3)) {
      const columns = under([
        { name: 'v', kind: 'int' },
        { name: 's', kind: 'text' },
      ])
      return { sql: `(VALUES (1, 'oslo'), (2, 'rome'), (3, NULL)) AS ${alias}(v, s)`, columns }
    }
    const table = this.#random.pick(['people', 'people', 'staff', 'seen'])
    const columns = Object.entries(BASES[table] ?? {}).map(([name, kind]) => ({ name, kind }))
    const sample = this.#chance(25) ? ' TABLESAMPLE reservoir(3 ROWS) REPEATABLE (7)' : ''
    return { sql: `${table} AS ${alias}${sample}`, columns: under(columns) }
  }

  #kind(): Kind {
    return this.#random.pick(['int', 'int', 'text', 'text', 'bool', 'list'] as const)
  }

  #ofKind(kind: Kind, columns: readonly Column[]): string | null {
    const fitting = columns.filter((column) => column.kind === kind)
    return fitting.length === 0 ? null : this.#random.pick(fitting).name
  }

  #any(columns: readonly Column[]): string {
    const scalars = columns.filter(({ kind }) => kind !== 'list')
    return scalars.length === 0 ? '1 + 1' : this.#random.pick(scalars).name
  }

  #conditions(depth: number, inSight: readonly Column[], outer: readonly Column[]): string {
    return Array.from({ length: 1 + this.#random.below(2) }, () => {
      if (outer.length > 0 && this.#chance(2)) return this.#pairing(inSight, outer, [...inSight, ...outer], [])
      return this.#expression('bool', depth, inSight, outer)
    }).join(' AND ')
  }

  #item(kind: Kind, depth: number, inSight: readonly Column[], outer: readonly Column[]): string {
    if (kind === 'int' && this.#chance(9)) {
      const name = this.#random.pick([
        'row_number()',
        'rank()',
        'count(*)',
        `sum(${this.#ofKind('int', inSight) ?? '1'})`,
      ])
      return `${name} OVER (${this.#window(inSight)})`
    }
    if (kind === 'int' && this.#chance(20)) return `unnest(${this.#ofKind('list', inSight) ?? '[1, 2]'})`
    return this.#expression(kind, depth, inSight, outer)
  }

  #expression(kind: Kind, depth: number, inSight: readonly Column[], outer: readonly Column[]): string {
    const sight = outer.length > 0 && this.#chance(5) ? outer : inSight
    const column = this.#ofKind(kind, sight)
    if (column !== null && (depth <= 0 || !this.#chance(3))) if (kind !== 'bool') return column
    if (depth < -1) return CONSTANTS[kind]
    const of = (wanted: Kind) => this.#expression(wanted, depth - 1, inSight, outer)
    switch (kind) {
      case 'int':
        return this.#random.pick([
          () => String(this.#random.below(5)),
          () => `(${of('int')} + ${of('int')})`,
          () => `length(${of('text')})`,
          () => `CASE WHEN ${of('bool')} THEN ${of('int')} ELSE ${this.#random.below(9)} END`,
          () => `len(list_filter(${of('list')}, lambda x: x > ${of('int')}))`,
          () => this.#scalar(depth, inSight),
          () => `coalesce(${of('int')}, 0)`,
        ])()
      case 'text':
        return this.#random.pick([
          () => this.#random.pick(["'oslo'", "'x'", 'NULL']),
          () => `upper(${of('text')})`,
          () => `coalesce(${of('text')}, 'none')`,
          () => `CASE WHEN ${of('bool')} THEN 'a' ELSE ${of('text')} END`,
        ])()
      case 'list':
        return this.#random.pick([
          () => '[1, 2, 3]',
          () => `list_transform(${of('list')}, lambda x: x + ${of('int')})`,
        ])()
      case 'bool':
        return this.#boolean(depth, inSight, outer)
    }
  }

  #boolean(depth: number, inSight: readonly Column[], outer: readonly Column[]): string {
    const of = (wanted: Kind) => this.#expression(wanted, depth - 1, inSight, outer)
    const simple = [
      () => `${of('int')} ${this.#random.pick(['<', '>', '=', '<=', '<>'])} ${of('int')}`,
      () => `${this.#any(inSight)} IS ${this.#random.pick(['', 'NOT '])}NULL`,
      () => `${this.#any(inSight)} IS NOT NULL`,
      () => `${of('text')} LIKE '%1%'`,
      () => `${of('text')} = ${of('text')}`,
      () => `${of('int')} IN (1, 2, 3)`,
      () => `${of('int')} BETWEEN 1 AND ${of('int')}`,
    ]
    if (depth <= 0) return this.#random.pick(simple)()
    return this.#random.pick([
      ...simple,
      () => `(${of('bool')} OR ${of('bool')})`,
      () => `NOT (${of('bool')})`,
      () => `${this.#chance(2) ? 'NOT ' : ''}EXISTS (${this.#select(depth - 2, inSight).sql})`,
      () => {
        const kind = this.#random.pick(['int', 'text', 'text'] as const)
        const inner = this.#select(depth - 2, [], [kind])
        return `${this.#ofKind(kind, inSight) ?? 'NULL'} ${this.#chance(3) ? 'NOT ' : ''}IN (${inner.sql})`
      },
    ])()
  }

  #scalar(depth: number, outer: readonly Column[]): string {
    const from = this.#relation(depth - 2)
    const where = this.#chance(2) ? ` WHERE ${this.#pairing(from.columns, outer, [...from.columns, ...outer], [])}` : ''
    return `(SELECT ${this.#aggregate('int', from.columns, [])} FROM ${from.sql}${where})`
  }
}
