import { type JsonCell, jsonCells, parseJsonAsWritten } from '@sluice/sdk'
import { BadRecord } from './csv-cells.ts'

/** The fields of one line by name, those that are null left out. Numbers stay as they are written. */
export function lineCells(text: string): ReadonlyMap<string, JsonCell> | BadRecord {
  try {
    return jsonCells(parseJsonAsWritten(text)) ?? new BadRecord('it is no object')
  } catch {
    return new BadRecord('it is no JSON')
  }
}
