/** A run as a picture for a README: how many checks of which level hold. */
import { escapedXml } from './report.ts'
import { countsOf, type RunRecord } from './run-record.ts'

const LABEL = 'sluice conformance'
const CHARACTER_PX = 6.6
const MARGIN_PX = 6
const GREEN = '#2d7d46'
const RED = '#b3261e'

export function badge({ level, checks }: RunRecord): string {
  const { passed, inverted, failed } = countsOf(checks)
  const text = failed === 0 ? `${level}: ${passed + inverted} hold` : `${level}: ${failed} fail`
  const [left, right] = [widthOf(LABEL), widthOf(text)]
  const label = escapedXml(`${LABEL}, ${text}`)
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${left + right}" height="20" role="img" aria-label="${label}">`,
    `<title>${label}</title>`,
    `<rect width="${left}" height="20" fill="#3b4252"/><rect x="${left}" width="${right}" height="20" fill="${failed === 0 ? GREEN : RED}"/>`,
    '<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">',
    `<text x="${left / 2}" y="14">${LABEL}</text><text x="${left + right / 2}" y="14">${escapedXml(text)}</text></g></svg>`,
    '',
  ].join('\n')
}

function widthOf(text: string): number {
  return Math.round(text.length * CHARACTER_PX) + 2 * MARGIN_PX
}
