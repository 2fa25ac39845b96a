/** Why a model cannot be a product, and what is said of one that can. */
import { type DbtNode, type DbtProject, fieldOf, textOf } from './artifacts.ts'
import { type Dialect, tokensOf } from './tokens.ts'

const CARRIED = ['table', 'view', 'incremental', 'materialized_view', 'dynamic_table']

/** What is known before its SQL is looked at; null: nothing is in the way. */
export function modelRefusal({ language, materialized, compiled, config, name }: DbtNode): string | null {
  if (language !== 'sql') return `it is written in ${language}: leave it to dbt, and read its table (--tables ${name})`
  if (!CARRIED.includes(materialized)) {
    return `its materialization ${materialized} is made by a macro: leave it to dbt, and read its table (--tables ${name})`
  }
  if (textOf(fieldOf(config, 'incremental_strategy')) === 'microbatch') {
    return 'it is compiled for one batch (microbatch)'
  }
  return compiled === null || compiled.trim() === '' ? 'it is not compiled: run dbt compile --full-refresh' : null
}

/** Of an incremental model that was compiled for what is new: null where it was not. Throws SqlTextError. */
export function incrementRefusal(node: DbtNode, readsItself: boolean, dialect: Dialect): string | null {
  const remedy = 'run dbt compile --full-refresh'
  if (readsItself) return `its compiled SQL reads the model itself: ${remedy}`
  if (!/\bis_incremental\s*\(/.test(node.raw)) return null
  const compiled = wordsOf(node.compiled ?? '', dialect)
  const isThere = incrementTexts(node.raw).some((text) => compiled.includes(wordsOf(text, dialect)))
  return isThere ? `it is compiled for what is new alone (is_incremental): ${remedy}` : null
}

const wordsOf = (sql: string, dialect: Dialect): string =>
  tokensOf(sql, dialect)
    .filter(({ kind }) => kind !== 'space' && kind !== 'comment')
    .map(({ text }) => text)
    .join(' ')

const BLOCK = /\{%-?\s*if\s+is_incremental\(\s*\)\s*-?%\}([^]*?)\{%-?\s*(?:else|elif|endif)\b/g
const SHORTEST = 8

/** What stands in the blocks for increments as it is, between what is filled in. */
function incrementTexts(raw: string): readonly string[] {
  const blocks = [...raw.matchAll(BLOCK)].map((match) => match[1] as string)
  const parts = blocks.flatMap((block) => block.split(/\{\{[^]*?\}\}|\{%[^]*?%\}|\{#[^]*?#\}|['"`\n]/))
  return parts.map((part) => part.trim()).filter((part) => part.length >= SHORTEST && !part.startsWith('--'))
}

const RUN_STATE =
  /\{[{%][^]*?\b(run_started_at|invocation_id|dbt_version|execute|modules\.datetime|load_result)\b[^]*?[}%]\}/

/** What the product is without, or differs in. */
export function modelNotes(node: DbtNode, project: DbtProject): readonly string[] {
  const { config, materialized, macros, raw } = node
  const hooks = (['pre-hook', 'post-hook', 'pre_hook', 'post_hook'] as const).filter((name) => {
    const value = fieldOf(config, name)
    return Array.isArray(value) ? value.length > 0 : Boolean(value)
  })
  const state = RUN_STATE.exec(raw.slice(0, 200_000))?.[1]
  return [
    ...(materialized === 'incremental' ? ['it is made whole, as by --full-refresh'] : []),
    ...hooks.map((name) => `its ${name} is not carried`),
    ...(project.asksWarehouse(macros) ? ['its SQL was made from what the warehouse held when it was compiled'] : []),
    ...(state === undefined ? [] : [`${state} is what it was when it was compiled`]),
  ]
}
