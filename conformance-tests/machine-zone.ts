/** The time zone that this process takes the machine to be in. */

/** Asked once: checks of several runs overlap in a process, and each would take another's zone for the machine's own. */
const OWN = process.env['TZ']

/** One after the other; afterwards the machine has its own zone again, whatever else is under way. */
export async function inZones(zones: readonly string[], work: (zone: string) => Promise<void>): Promise<void> {
  try {
    for (const zone of zones) {
      process.env['TZ'] = zone
      await work(zone)
    }
  } finally {
    if (OWN === undefined) delete process.env['TZ']
    else process.env['TZ'] = OWN
  }
}
