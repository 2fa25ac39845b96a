/** Arrays as clients are told of them: `{1,NULL,"a \\"b\\""}`, of the JSON that the engine tells a list by. */

/** By the type of an array, that of its elements. */
const ELEMENTS: Readonly<Record<number, number>> = {
  1000: 16,
  1001: 17,
  1003: 19,
  1005: 21,
  1007: 23,
  1009: 25,
  1014: 1042,
  1015: 1043,
  1016: 20,
  1021: 700,
  1022: 701,
  1115: 1114,
  1182: 1082,
  1183: 1083,
  1185: 1184,
  1187: 1186,
  1231: 1700,
  1270: 1266,
  2951: 2950,
}

/** 0 of what is no array. */
export const elementOf = (oid: number): number => ELEMENTS[oid] ?? 0

/** 0 where there is none. */
export function arrayOf(element: number): number {
  const [array = 0] = Object.entries(ELEMENTS).find(([, own]) => own === element) ?? []
  return Number(array)
}

/** A number stays as its digits: a JSON.parse would round it. */
const ELEMENT = /"(?:[^"\\]|\\[^])*"|[^[\],\s"]+/g

export function arrayText(json: string, write: (text: string) => string): string {
  const elements = [...json.matchAll(ELEMENT)].map(([told]) => elementText(told, write))
  return `{${elements.join(',')}}`
}

function elementText(told: string, write: (text: string) => string): string {
  if (told === 'null') return 'NULL'
  const text = write(told.startsWith('"') ? String(JSON.parse(told)) : told)
  const isPlain = text !== '' && !/[{}",\\\s]/.test(text) && text.toUpperCase() !== 'NULL'
  return isPlain ? text : `"${text.replace(/["\\]/g, '\\$&')}"`
}
