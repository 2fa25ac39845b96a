/**
 * The SELECT that makes a twin from the clear rows. Hash keys come from a one-row table of bound parameters, never
 * from the statement's text.
 */
import { quoteName, quoteText } from '@sluice/engine'
import { type Column, typeName } from '@sluice/sdk'
import type { ColumnMask } from '../policy/masking.ts'

export const REDACTED = '[redacted]'

/** HMAC's inner and outer pads of one class, 64 bytes each (RFC 2104). */
export interface MaskKey {
  readonly classification: string
  readonly innerPad: Uint8Array
  readonly outerPad: Uint8Array
}

/** The pads of a key of at most 64 bytes. */
export function maskKey(classification: string, key: Uint8Array): MaskKey {
  const block = Buffer.alloc(64)
  Buffer.from(key).copy(block)
  return {
    classification,
    innerPad: block.map((byte) => byte ^ 0x36),
    outerPad: block.map((byte) => byte ^ 0x5c),
  }
}

/** Statements (with their parameters) that put the keys where `twinSelect` finds them. */
export function maskKeySteps(
  keys: readonly MaskKey[],
): readonly { readonly sql: string; readonly parameters?: readonly Uint8Array[] }[] {
  return keys.map((key, index) => ({
    sql: `CREATE TEMP TABLE ${keyTable(index)} AS SELECT $1::BLOB AS inner_pad, $2::BLOB AS outer_pad`,
    parameters: [key.innerPad, key.outerPad],
  }))
}

/** The twin's rows, from the relation named `source`, in the columns of the twin. */
export function twinSelect(
  source: string,
  columns: readonly Column[],
  masks: readonly ColumnMask[],
  keys: readonly MaskKey[],
): string {
  const cells = columns.flatMap((column) => {
    const mask = masks.find((candidate) => candidate.column === column.name)
    if (mask?.strategy === 'omit') return []
    const cell = mask ? maskedCell(column, mask, keys) : quoteName(column.name)
    return [`${cell} AS ${quoteName(column.name)}`]
  })
  return `SELECT ${cells.join(', ')} FROM ${quoteName(source)}`
}

/** The twin's columns: what a mask may turn into null is nullable there, omitted columns are gone. */
export function twinColumns<C extends Column>(columns: readonly C[], masks: readonly ColumnMask[]): readonly C[] {
  return columns.flatMap((column) => {
    const mask = masks.find((candidate) => candidate.column === column.name)
    if (mask?.strategy === 'omit') return []
    return [mask?.strategy === 'null' ? { ...column, nullable: true } : column]
  })
}

function maskedCell(column: Column, mask: ColumnMask, keys: readonly MaskKey[]): string {
  const name = quoteName(column.name)
  switch (mask.strategy) {
    case 'redact':
      // Also for null: that a value is missing is part of what is hidden.
      return quoteText(REDACTED)
    case 'partial':
      return `CASE WHEN length(${name}) > 8 THEN repeat('*', 6) || right(${name}, 4) ELSE repeat('*', 6) END`
    case 'hash':
      return hashedCell(
        column,
        keys.findIndex((key) => key.classification === mask.classification),
      )
    default:
      return 'NULL'
  }
}

/** A null stays null: a hash shows equality, and nulls equal each other. */
function hashedCell(column: Column, key: number): string {
  const name = quoteName(column.name)
  const bytes = typeName(column.type) === 'binary' ? name : `encode(${name}::VARCHAR)`
  const inner = `sha256((SELECT inner_pad FROM ${keyTable(key)}) || ${bytes})`
  const digest = `sha256((SELECT outer_pad FROM ${keyTable(key)}) || unhex(${inner}))`
  switch (typeName(column.type)) {
    case 'binary':
      return `unhex(${digest})`
    case 'uuid':
      return `left(${digest}, 32)::UUID`
    default:
      return `left(${digest}, 32)`
  }
}

function keyTable(index: number): string {
  return `mask_key_${index}`
}
