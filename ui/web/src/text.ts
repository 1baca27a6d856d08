// Texts of the page: times, ages, states. Pure.

import type { State } from './model.ts';

const two = (value: number): string => String(value).padStart(2, '0');

/** A local time with milliseconds. */
export function clock(time: number): string {
  if (!time) return '';
  const date = new Date(time);
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${String(date.getMilliseconds()).padStart(3, '0')}`;
}

/** A local time without milliseconds. */
export const second = (time: number): string => clock(time).slice(0, 8);

/** A local date and time. */
export function dateTime(time: number): string {
  const date = new Date(time);
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clock(time)}`;
}

/** A duration as kubectl prints ages: its two largest units, or one. */
export function age(milliseconds: number): string {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  if (seconds < 120) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 10) return seconds % 60 ? `${minutes}m${seconds % 60}s` : `${minutes}m`;
  if (minutes < 180) return `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  if (hours < 8) return minutes % 60 ? `${hours}h${minutes % 60}m` : `${hours}h`;
  if (hours < 48) return `${hours}h`;
  return `${Math.floor(hours / 24)}d`;
}

/** What a state means, for people. */
export const STATES: Record<State, string> = {
  '': 'exists',
  ready: 'ready',
  progress: 'in progress',
  unready: 'not ready',
  pending: 'pending',
  done: 'done',
  failed: 'failed',
  idle: 'idle',
  ending: 'being deleted',
  warning: 'warning',
};

export const count = (number: number, one: string, many = `${one}s`): string => `${number.toLocaleString('en')} ${number === 1 ? one : many}`;

/** The middle of a long name left out. */
export function middle(text: string, width: number): string {
  if (text.length <= width) return text;
  const tail = Math.floor((width - 1) / 2);
  return `${text.slice(0, width - 1 - tail)}…${text.slice(text.length - tail)}`;
}
