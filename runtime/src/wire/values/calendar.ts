/**
 * Days of the calendar, counted since 1970. Years begin with March here, so that the one day more that some have is their last; after
 * 400 of them the calendar repeats itself. Numbers alone, as each value of a row comes through here.
 */
const [CYCLE_YEARS, CYCLE_DAYS] = [400, 146_097]
/** From the March that begins the year 0. */
const DAYS_TO_1970 = 719_468
/** The day of a year that begins with March on which the next one begins with January. */
const JANUARY = 306

/** From 1970 to 2000, where PostgreSQL's binary begins. */
export const DAYS_TO_2000 = 10_957

/** `month` and `day` count from 1; the years before the first are 0, -1 and so on. */
export function daysTo(year: number, month: number, day: number): number {
  const monthDays = Math.floor((153 * (month + (month > 2 ? -3 : 9)) + 2) / 5)
  return firstDayOf(month > 2 ? year : year - 1) + monthDays + day - 1
}

/** The year that the day is in, where years begin with March. */
export function marchYearOf(days: number): number {
  const since = days + DAYS_TO_1970
  const cycle = Math.floor(since / CYCLE_DAYS)
  const day = since - cycle * CYCLE_DAYS
  const years = Math.floor((day - Math.floor(day / 1_460) + Math.floor(day / 36_524) - Math.floor(day / 146_096)) / 365)
  return cycle * CYCLE_YEARS + years
}

/** Of a year that begins with March. */
export function firstDayOf(marchYear: number): number {
  const cycle = Math.floor(marchYear / CYCLE_YEARS)
  const years = marchYear - cycle * CYCLE_YEARS
  return cycle * CYCLE_DAYS + years * 365 + Math.floor(years / 4) - Math.floor(years / 100) - DAYS_TO_1970
}

/** `dayOfYear`, here and below: of a year that begins with March, whose first one is 0. */
export const yearOf = (marchYear: number, dayOfYear: number): number =>
  dayOfYear >= JANUARY ? marchYear + 1 : marchYear

export function monthOf(dayOfYear: number): number {
  const month = monthFromMarch(dayOfYear)
  return month < 10 ? month + 3 : month - 9
}

export const dayOfMonth = (dayOfYear: number): number =>
  dayOfYear - Math.floor((153 * monthFromMarch(dayOfYear) + 2) / 5) + 1

const monthFromMarch = (dayOfYear: number): number => Math.floor((5 * dayOfYear + 2) / 153)
